// Copies of weights on the GPU, one for each type that is multiplied. Door:
// weights.h.
#include "headwise/ops/matmul/cuda/weights.h"

#include <algorithm>
#include <memory>
#include <string>

#include "headwise/base/byte_size.h"
#include "headwise/error.h"
#include "headwise/ops/copy/copy.h"
#include "headwise/tensor/slice.h"

namespace headwise {
namespace {

// Lines of copies are multiples of this long: tiles are read whole.
constexpr int64_t kLine = 64;

int64_t LineOf(const PreparedWeights& weights) {
  return (weights.k() + kLine - 1) / kLine * kLine;
}

size_t BytesOf(const PreparedWeights& weights, DType type) {
  return static_cast<size_t>(BytesOf(type, weights.n() * LineOf(weights)));
}

std::unique_ptr<DeviceWeights> Make(Context& context,
                                    const PreparedWeights& weights,
                                    DType type) {
  const bool transposed = weights.operand() == Operand::kTransposed;
  auto form = std::make_unique<DeviceWeights>();
  form->memory =
      Tensor::Undefined(context, type, {weights.n(), LineOf(weights)});
  const TensorView whole = Columns(form->memory.view(), 0, weights.k());
  form->whole = whole;
  int64_t at = 0;
  for (const ConstTensorView& part : weights.matrices()) {
    const ConstTensorView lines = transposed ? part : Transposed(part, 0, 1);
    Copy(context, lines, Rows(whole, at, at + lines.shape[0]));
    at += lines.shape[0];
  }
  // Whoever shares the weights has another queue; and the parts may go.
  context.Synchronize();
  return form;
}

}  // namespace

bool HasAlignedLines(const ConstTensorView& matrix) {
  const int64_t size = ElementSize(matrix.type);
  return reinterpret_cast<uintptr_t>(matrix.data) % 16 == 0 &&
         (matrix.shape[0] <= 1 || matrix.stride[0] * size % 16 == 0);
}

std::span<const ConstTensorView> WeightsOnDevice(Context& context,
                                                 const PreparedWeights& weights,
                                                 DType type) {
  const auto parts = weights.matrices();
  const auto fits = [&](const ConstTensorView& part) {
    return weights.operand() == Operand::kTransposed &&
           part.device == context.device() && part.type == type &&
           HasAlignedLines(part);
  };
  if (std::all_of(parts.begin(), parts.end(), fits)) return parts;
  const DeviceWeights* form = weights.Get(
      DeviceWeightsKey(type), [&] { return BytesOf(weights, type); },
      [&] { return Make(context, weights, type); });
  if (form == nullptr) {
    throw Error(ErrorCode::kOutOfMemory,
                {"matmul", ByteSize(BytesOf(weights, type)) + " for weights",
                 "less left of their budget",
                 "a GPU multiplies nothing but its copies: set no limit"});
  }
  if (form->whole.device != context.device()) {
    throw Error(ErrorCode::kUnsupported,
                {"matmul", "weights on " + ToString(context.device()),
                 "a copy on " + ToString(form->whole.device),
                 "prepare them once for each GPU"});
  }
  return std::span(&form->whole, 1);
}

std::span<const ConstTensorView> FindOnDevice(Context& context,
                                              const PreparedWeights& weights) {
  for (const DType type : {DType::kBF16, DType::kF16, DType::kF32}) {
    const DeviceWeights* form = weights.Find(DeviceWeightsKey(type));
    if (form != nullptr && form->whole.device == context.device()) {
      return std::span(&form->whole, 1);
    }
  }
  const auto parts = weights.matrices();
  return !parts.empty() && parts[0].device == context.device()
             ? parts
             : decltype(parts)();
}

}  // namespace headwise
