// The stream of boards and changes. Nothing is asked for while nobody looks at the page; a connection that breaks comes back.
const RETRY_MS = 3000;
// The service sends something at least this often while it lives; a connection that is silent for longer is broken.
const SILENT_MS = 25000;

export class Feed {
  constructor(state, { drawn, trouble }) {
    this.state = state;
    this.drawn = drawn;
    this.trouble = trouble;
    document.addEventListener("visibilitychange", () => (document.hidden ? this.close() : this.open()));
    window.addEventListener("pagehide", () => this.close());
    window.addEventListener("pageshow", () => this.open());
    setInterval(() => this.watch(), SILENT_MS);
  }

  watch() {
    if (this.source && this.state.seq && Date.now() - this.state.at > SILENT_MS) this.again();
  }

  open() {
    if (this.source || document.hidden) return;
    clearTimeout(this.timer);
    const source = this.source = new EventSource("/dashboard/events");
    source.addEventListener("board", (event) => this.drawn(this.state.board(JSON.parse(event.data))));
    source.addEventListener("change", (event) => {
      const parts = this.state.change(JSON.parse(event.data));
      if (parts) this.drawn(parts);
      else this.again();
    });
    source.addEventListener("error", () => this.failed(source));
  }

  close() {
    clearTimeout(this.timer);
    this.source?.close();
    this.source = null;
  }

  again() {
    this.close();
    this.open();
  }

  // A refusal says why; a broken connection says nothing.
  async failed(source) {
    if (source !== this.source) return;
    if (source.readyState !== EventSource.CLOSED) {
      this.trouble("The connection broke; trying again.");
      return;
    }
    this.close();
    this.timer = setTimeout(() => this.open(), RETRY_MS);
    try {
      const answer = await fetch("/statusz");
      const status = await answer.json();
      const waits = status.waitingFor.join(", ");
      this.trouble(status.ready ? "Too many dashboards are open; trying again." : `Not ready: waiting for the first list of ${waits}.`);
    } catch {
      this.trouble("The service does not answer; trying again.");
    }
  }
}
