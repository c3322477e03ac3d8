// cuda.lt: products of any size, type and layout by cuBLASLt; whatever the
// library does not take as it lies is copied first. Door: ../implementation.h.
#include <algorithm>
#include <string>

#include "headwise/backend/cuda/blas.h"
#include "headwise/error.h"
#include "headwise/ops/copy/copy.h"
#include "headwise/ops/matmul/cuda/weights.h"
#include "headwise/ops/matmul/implementation.h"
#include "headwise/ops/pointwise/pointwise.h"
#include "headwise/tensor/slice.h"

namespace headwise {
namespace {

cudaDataType_t BlasType(DType type) {
  switch (type) {
    case DType::kBF16:
      return CUDA_R_16BF;
    case DType::kF16:
      return CUDA_R_16F;
    default:
      return CUDA_R_32F;
  }
}

// Which axis of a matrix lies together, and how far apart its lines are; 0
// where they overlap, as the library does not take them.
struct Lines {
  int axis = 1;
  int64_t apart = 0;
};
Lines LinesOf(const ConstTensorView& x) {
  const int axis = x.stride[1] == 1 ? 1 : 0;
  const int64_t length = x.shape[axis];
  const int64_t stride = x.stride[1 - axis];
  if (x.shape[1 - axis] <= 1) return {axis, std::max(stride, length)};
  return {axis, stride >= length ? stride : 0};
}

// A view of `type` that the library takes: x, or a copy that `copy` keeps.
ConstTensorView Taken(Context& context, const ConstTensorView& x, DType type,
                      Temp& copy) {
  if (x.type == type && LinesOf(x).apart > 0) return x;
  copy = Temp(context, type, {x.shape[0], x.shape[1]});
  Copy(context, x, copy.view());
  return copy.view();
}

// The bias as the library adds it: of C's type, aligned.
ConstTensorView TakenBias(Context& context, const ConstTensorView& bias,
                          DType type, Temp& copy) {
  const bool aligned = reinterpret_cast<uintptr_t>(bias.data) % 16 == 0;
  if (!bias || (bias.type == type && aligned)) return bias;
  copy = Temp(context, type, {bias.shape[0]});
  Copy(context, bias, copy.view());
  return copy.view();
}

void AddBias(Context& context, const ConstTensorView& bias,
             const TensorView& c) {
  Add(context, c, Broadcast(bias, {c.shape[0], c.shape[1]}), c);
}

// C = bias, or C += bias: there is nothing to multiply.
void StoreBias(Context& context, const MatmulCall& call) {
  const TensorView& c = call.args.c;
  const ConstTensorView& bias = call.args.bias;
  if (call.problem.store == Store::kAccumulate) {
    Temp copy;
    if (bias) AddBias(context, TakenBias(context, bias, c.type, copy), c);
  } else if (bias) {
    Copy(context, Broadcast(bias, {c.shape[0], c.shape[1]}), c);
  } else {
    Fill(context, 0, c);
  }
}

// c = a · b (+ bias): some columns of C.
void Multiply(Context& context, const MatmulCall& call,
              const ConstTensorView& a, const ConstTensorView& b,
              const ConstTensorView& bias, const TensorView& c) {
  const Lines a_lines = LinesOf(a), b_lines = LinesOf(b);
  BlasProduct product = {.m = c.shape[0],
                         .n = c.shape[1],
                         .k = call.problem.k,
                         .type = BlasType(a.type),
                         .c_type = BlasType(c.type)};
  product.a = a.data;
  product.a_along_k =
      a_lines.axis == (call.problem.a == Operand::kPlain ? 1 : 0);
  product.lda = a_lines.apart;
  product.b = b.data;
  product.b_along_k =
      b_lines.axis == (OperandOfB(call) == Operand::kTransposed ? 1 : 0);
  product.ldb = b_lines.apart;
  product.c = c.data;
  product.ldc = std::max(c.shape[1], c.stride[0]);
  product.bias = bias.data;
  product.add = call.problem.store == Store::kAccumulate;
  CudaBlas& blas = CudaOf(context).Blas();
  if (blas.Multiply(product)) return;
  product.bias = nullptr;
  if (!blas.Multiply(product)) {
    throw Error(
        ErrorCode::kUnsupported,
        {"matmul", "a product that cuBLASLt has an algorithm for",
         ToString(call.problem) + " of " + ToString(a) + " and " + ToString(b),
         ""});
  }
  if (bias) AddBias(context, bias, c);
}

Reason WhyNot(const MatmulCall& call) {
  return call.args.c.device.is_cuda() ? "" : "runs on CUDA only";
}

void Run(Context& context, const MatmulCall& call) {
  const MatmulArgs& args = call.args;
  if (call.problem.k == 0) return StoreBias(context, call);
  Temp a_copy;
  const ConstTensorView a = Taken(context, args.a, args.a.type, a_copy);
  const auto parts = args.weights != nullptr
                         ? WeightsOnDevice(context, *args.weights, a.type)
                         : PartsOf(args);
  int64_t begin = 0;
  for (const ConstTensorView& part : parts) {
    const int64_t end = begin + ColumnsOf(part, OperandOfB(call));
    if (end == begin) continue;
    Temp b_copy, bias_copy;
    const TensorView c = Columns(args.c, begin, end);
    const ConstTensorView bias =
        TakenBias(context, Slice(args.bias, 0, begin, end), c.type, bias_copy);
    Multiply(context, call, a, Taken(context, part, a.type, b_copy), bias, c);
    begin = end;
  }
}

}  // namespace

const Implementation<MatmulCall> kMatmulCudaLt = {
    .name = "cuda.lt", .why_not = WhyNot, .run = Run};

}  // namespace headwise
