// Amounts for people: milliCPU, bytes, seconds; and how wide a window counts as a wall.
export const WALL = matchMedia("(min-width: 120rem)");
export const number = (value) => value.toLocaleString("en");

export function cpu(milli) {
  if (milli === 0) return "0";
  return Math.abs(milli) < 1000 ? `${milli}m` : (milli / 1000).toLocaleString("en", { maximumFractionDigits: 2 });
}

export function memory(bytes) {
  const units = [["TiB", 2 ** 40], ["GiB", 2 ** 30], ["MiB", 2 ** 20], ["KiB", 2 ** 10]];
  for (const [unit, size] of units) {
    if (Math.abs(bytes) >= size) return `${(bytes / size).toLocaleString("en", { maximumFractionDigits: 1 })} ${unit}`;
  }
  return bytes === 0 ? "0" : `${bytes} B`;
}

export const amount = { cpu, memory };

// A price with where it comes from: what rests on the formula says so.
export const money = (price) => `${price.perHour} ${price.currency} (${price.basis})`;

export const percent = (part, whole) => (whole > 0 ? `${Math.round((100 * part) / whole)} %` : "none");

export function duration(seconds) {
  const whole = Math.round(Math.abs(seconds));
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
}

export const clock = (unixSeconds) => new Date(unixSeconds * 1000).toLocaleTimeString("en-GB");

export const many = (count, one, more = `${one}s`) => `${number(count)} ${count === 1 ? one : more}`;

// Seconds since a Unix time, rounded so that it changes seldom: 42 s, 5 min, 3 h, 2 d.
export function age(unixSeconds) {
  const whole = Math.max(0, Math.round(Date.now() / 1000 - unixSeconds));
  if (whole < 60) return `${whole} s`;
  if (whole < 5400) return `${Math.round(whole / 60)} min`;
  return whole < 172800 ? `${Math.round(whole / 3600)} h` : `${Math.round(whole / 86400)} d`;
}
