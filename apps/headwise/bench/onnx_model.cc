// Door: onnx_model.h. Field numbers are those of onnx.proto3.
#include "bench/onnx_model.h"

#include <bit>

namespace headwise::bench {
namespace {

// Protocol-buffer messages as they lie on the wire.
class Message {
 public:
  void Integer(int field, int64_t value) {
    Varint(static_cast<uint64_t>(field) << 3 | 0);
    Varint(static_cast<uint64_t>(value));
  }
  void Float(int field, float value) {
    Varint(static_cast<uint64_t>(field) << 3 | 5);
    const uint32_t bits = std::bit_cast<uint32_t>(value);
    for (int shift = 0; shift < 32; shift += 8) {
      bytes_.push_back(static_cast<char>(bits >> shift & 0xff));
    }
  }
  void Bytes(int field, const std::string& value) {
    Varint(static_cast<uint64_t>(field) << 3 | 2);
    Varint(value.size());
    bytes_ += value;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  void Varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) {
      bytes_.push_back(static_cast<char>((value & 0x7f) | 0x80));
    }
    bytes_.push_back(static_cast<char>(value));
  }
  std::string bytes_;
};

std::string ValueInfo(const OnnxValue& value) {
  Message shape;
  for (int64_t size : value.shape) {
    Message dimension;
    dimension.Integer(1, size);  // dim_value
    shape.Bytes(1, dimension.bytes());
  }
  Message tensor;
  tensor.Integer(1, static_cast<int>(value.type));  // elem_type
  tensor.Bytes(2, shape.bytes());
  Message type;
  type.Bytes(1, tensor.bytes());  // tensor_type
  Message info;
  info.Bytes(1, value.name);
  info.Bytes(2, type.bytes());
  return info.bytes();
}

std::string Node(const OnnxNode& node) {
  Message message;
  for (const OnnxValue& input : node.inputs) message.Bytes(1, input.name);
  for (const OnnxValue& output : node.outputs) message.Bytes(2, output.name);
  message.Bytes(4, node.op_type);
  for (const auto& [name, value] : node.integers) {
    Message attribute;
    attribute.Bytes(1, name);
    attribute.Integer(3, value);
    attribute.Integer(20, 2);  // type: INT
    message.Bytes(5, attribute.bytes());
  }
  for (const auto& [name, value] : node.floats) {
    Message attribute;
    attribute.Bytes(1, name);
    attribute.Float(2, value);
    attribute.Integer(20, 1);  // type: FLOAT
    message.Bytes(5, attribute.bytes());
  }
  message.Bytes(7, node.domain);
  return message.bytes();
}

std::string OperatorSet(const std::string& domain, int64_t version) {
  Message set;
  set.Bytes(1, domain);
  set.Integer(2, version);
  return set.bytes();
}

}  // namespace

std::string OneNodeModel(const OnnxNode& node) {
  Message graph;
  graph.Bytes(1, Node(node));
  graph.Bytes(2, "peer");
  for (const OnnxValue& input : node.inputs) {
    if (!input.name.empty()) graph.Bytes(11, ValueInfo(input));
  }
  for (const OnnxValue& output : node.outputs) {
    if (!output.name.empty()) graph.Bytes(12, ValueInfo(output));
  }
  Message model;
  model.Integer(1, 10);  // ir_version
  model.Bytes(7, graph.bytes());
  // The first set with an attention operator of the standard's own is 23.
  model.Bytes(8, OperatorSet("", 23));
  if (!node.domain.empty()) model.Bytes(8, OperatorSet(node.domain, 1));
  return model.bytes();
}

}  // namespace headwise::bench
