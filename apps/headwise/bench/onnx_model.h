// Writes ONNX models of one node: all that a peer needs to be timed. The format
// is protocol buffers (onnx.proto3 of the ONNX standard).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace headwise::bench {

// Element types of onnx.proto3's TensorProto.DataType.
enum class OnnxType : int { kFloat = 1, kInt32 = 6, kInt64 = 7 };

struct OnnxValue {
  std::string name;  // empty: an optional input that is left out
  OnnxType type = OnnxType::kFloat;
  std::vector<int64_t> shape;
};

struct OnnxNode {
  std::string op_type;
  std::string domain;  // empty: the standard's own operators
  std::map<std::string, int64_t> integers;
  std::map<std::string, float> floats;
  std::vector<OnnxValue> inputs;
  std::vector<OnnxValue> outputs;
};

// The bytes of a model whose graph is this one node.
std::string OneNodeModel(const OnnxNode& node);

}  // namespace headwise::bench
