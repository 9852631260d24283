"""The protocol's messages. From a clone, `python -m grpc_tools.protoc -I service/src --python_out service/src
--pyi_out service/src service/src/slackwater/adapters/cloud/externalgrpc/wire/*.proto` generates `*_pb2` from the `.proto` files."""
