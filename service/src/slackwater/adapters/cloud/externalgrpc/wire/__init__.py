"""The protocol's messages. `*_pb2` are generated from the `.proto` files beside them by `make protobuf`."""
