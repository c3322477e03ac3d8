// A graph of ONNX operators under construction. Values are known by their
// names; everything is f32 but for ids and positions.
#pragma once

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "headwise/context.h"
#include "headwise/export/onnx/message.h"
#include "headwise/nn/parameter.h"

namespace headwise {

using OnnxValue = std::string;

class OnnxGraph {
 public:
  explicit OnnxGraph(Context& context);

  // i64 [batch, sequence].
  OnnxValue Input(const std::string& name);
  // f32 [batch, sequence, width].
  void Output(const std::string& name, const OnnxValue& value, int64_t width);

  // Opset 17's operators with one output. The node's attributes are ints.
  OnnxValue Op(
      const char* type, const std::vector<OnnxValue>& inputs,
      std::initializer_list<std::pair<const char*, int64_t>> numbers = {});
  OnnxValue Transpose(const OnnxValue& x, const std::vector<int64_t>& order);
  // The last axis in pieces of these sizes.
  std::vector<OnnxValue> Split(const OnnxValue& x,
                               const std::vector<int64_t>& sizes);
  OnnxValue LayerNorm(const std::vector<OnnxValue>& inputs, float epsilon);
  // Means over the last axis, which stays as one.
  OnnxValue Mean(const OnnxValue& x);
  // Shape with 0 for "as it is" and −1 for "the rest".
  OnnxValue Reshape(const OnnxValue& x, const std::vector<int64_t>& shape);

  OnnxValue Number(float value);
  OnnxValue Integer(int64_t value);
  OnnxValue Integers(const std::vector<int64_t>& values);
  OnnxValue Vector(const std::vector<float>& values);
  // By its own name, once.
  OnnxValue Weight(const Parameter& parameter);

  // Whole or not at all.
  void Write(const std::filesystem::path& path) const;

 private:
  std::string NewName();
  // The outputs' names.
  std::vector<OnnxValue> Node(const char* type,
                              const std::vector<OnnxValue>& inputs,
                              const std::vector<ProtoMessage>& attributes,
                              size_t outputs = 1);
  void Constant(const std::string& name, int64_t type,
                const std::vector<int64_t>& shape, std::string_view raw);

  Context& context_;
  ProtoMessage graph_;
  int64_t names_ = 0;
  std::set<std::string> weights_;
};

}  // namespace headwise
