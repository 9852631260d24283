"""The protocol's messages. `make protobuf` generates `*_pb2` from the `.proto` files of this folder."""
