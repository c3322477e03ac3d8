// Door: fp4_stack.h.
#include "headwise/model/fp4_stack.h"

#include <cstddef>
#include <utility>
#include <vector>

#include "headwise/error.h"
#include "headwise/ops/check_view.h"
#include "headwise/ops/copy/copy.h"
#include "headwise/tensor/block_codecs.h"
#include "headwise/tensor/encoding.h"
#include "headwise/tensor/slice.h"

namespace headwise {
namespace {

constexpr int64_t kNumbers = 32, kBytes = kNumbers / 2;

ConstTensorView FindBytes(const WeightSource& weights, const std::string& name,
                          const Shape& shape) {
  const ConstTensorView view = weights.Find(name);
  if (view && view.type == DType::kU8 && ShapeOf(view) == shape &&
      view.device.is_cpu()) {
    return view;
  }
  throw Error(
      ErrorCode::kCorrupt,
      {weights.Describe(), "\"" + name + "\" to be u8 " + ToString(shape),
       view ? ToString(view) : "none", ""});
}

// The block of our own encoding: the exponent, then number i beside number
// i + 16.
void Arrange(const uint8_t* pairs, uint8_t exponent, std::byte* block) {
  const auto number = [&](int64_t i) {
    return i % 2 == 0 ? pairs[i / 2] & 15 : pairs[i / 2] >> 4;
  };
  block[0] = std::byte{exponent};
  for (int64_t i = 0; i < kBytes; ++i) {
    block[1 + i] = static_cast<std::byte>(number(i) | number(i + kBytes) << 4);
  }
}

}  // namespace

bool HasFp4Stack(const WeightSource& weights, const std::string& name) {
  return static_cast<bool>(weights.Find(name + "_blocks"));
}

Parameter UnpackFp4Stack(const WeightSource& weights, const std::string& name,
                         const Shape& shape,
                         std::shared_ptr<const Tensor>& made) {
  const int64_t experts = shape[0], rows = shape[1], columns = shape[2];
  if (columns % kNumbers != 0) {
    throw Error(ErrorCode::kCorrupt,
                {name, "rows of whole blocks of 32 numbers",
                 std::to_string(columns), ""});
  }
  const int64_t blocks = columns / kNumbers;
  const ConstTensorView pairs =
      FindBytes(weights, name + "_blocks", {experts, rows, blocks, kBytes});
  const ConstTensorView scales =
      FindBytes(weights, name + "_scales", {experts, rows, blocks});
  const auto* from = static_cast<const uint8_t*>(pairs.data);
  const auto* exponents = static_cast<const uint8_t*>(scales.data);
  auto tensor = std::make_shared<Tensor>(DType::kBF16, shape);
  std::vector<float> row(columns);
  Context host({.threads = 1});
  for (int64_t r = 0; r < experts * rows; ++r) {
    for (int64_t b = 0; b < blocks; ++b) {
      std::byte block[1 + kBytes];
      Arrange(from, *exponents++, block);
      from += kBytes;
      Fp4ToFloat(block, kNumbers, row.data() + b * kNumbers);
    }
    Copy(host, ViewOf(std::as_const(row)),
         At(At(tensor->view(), 0, r / rows), 0, r % rows));
  }
  made = tensor;
  return {name, std::as_const(*tensor).view()};
}

}  // namespace headwise
