#include "bench/onnx_model.h"

#include <gtest/gtest.h>

namespace headwise::bench {
namespace {

// Spelled byte by byte after the protocol-buffer encoding and onnx.proto3.
TEST(OnnxModel, HasTheBytesOfTheStandard) {
  OnnxNode node;
  node.op_type = "Op";
  node.domain = "d";
  node.integers = {{"i", 300}};
  node.floats = {{"f", 1.0f}};
  node.inputs = {{"x", OnnxType::kFloat, {2}}, {"", OnnxType::kFloat, {}}};
  node.outputs = {{"y", OnnxType::kInt32, {3}}};
  using namespace std::string_literals;
  const std::string integer =
      "\x0a\x01i"
      "\x18\xac\x02"
      "\xa0\x01\x02"s;
  const std::string real =
      "\x0a\x01"
      "f"
      "\x15\x00\x00\x80\x3f"
      "\xa0\x01\x01"s;
  const auto field = [](char tag, const std::string& bytes) {
    return std::string(1, tag) + static_cast<char>(bytes.size()) + bytes;
  };
  const std::string graph_node =
      "\x0a\x01x"
      "\x0a\x00"
      "\x12\x01y"
      "\x22\x02Op"s +
      field('\x2a', integer) + field('\x2a', real) +
      "\x3a\x01"
      "d"s;
  const auto value = [&](char name, char type, char size) {
    const std::string shape = field('\x0a', "\x08"s + size);
    const std::string tensor = "\x08"s + type + field('\x12', shape);
    return field('\x0a', std::string(1, name)) +
           field('\x12', field('\x0a', tensor));
  };
  const std::string graph = field('\x0a', graph_node) + field('\x12', "peer") +
                            field('\x5a', value('x', 1, 2)) +
                            field('\x62', value('y', 6, 3));
  const std::string expected = "\x08\x0a"s + field('\x3a', graph) +
                               field('\x42', "\x0a\x00\x10\x17"s) +
                               field('\x42',
                                     "\x0a\x01"
                                     "d"
                                     "\x10\x01"s);
  EXPECT_EQ(OneNodeModel(node), expected);
}

}  // namespace
}  // namespace headwise::bench
