// cuda.lt: products of any size, type and layout by cuBLASLt; whatever the
// library does not take as it lies is copied first. Door: ../implementation.h.
#include <algorithm>
#include <string>

#include "headwise/backend/cuda/blas.h"
#include "headwise/error.h"
#include "headwise/ops/activation/activation.h"
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

// Some columns of B, of the bias, of `inner` and of C.
struct Share {
  ConstTensorView b, bias;
  TensorView inner, c;
};

BlasProduct ProductOf(const MatmulCall& call, const ConstTensorView& a,
                      const Share& share) {
  const auto& [b, bias, inner, c] = share;
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
      b_lines.axis == (OperandOnDevice(call) == Operand::kTransposed ? 1 : 0);
  product.ldb = b_lines.apart;
  product.c = c.data;
  product.ldc = std::max(c.shape[1], c.stride[0]);
  product.bias = bias.data;
  product.add = call.problem.store == Store::kAccumulate;
  return product;
}

// Whether the library can be asked for the epilogue as part of the product.
bool AskForEpilogue(const MatmulCall& call, const ConstTensorView& a,
                    const Share& share, BlasProduct& product) {
  constexpr int64_t kLine = 8;  // lines of `inner` are multiples of it
  const TensorView& inner = share.inner;
  if (a.type == DType::kF32 || share.c.type != a.type) return false;
  const int64_t apart = std::max(inner.shape[1], inner.stride[0]);
  if (inner && (reinterpret_cast<uintptr_t>(inner.data) % 16 != 0 ||
                apart % kLine != 0)) {
    return false;
  }
  product.inner = inner.data;
  product.inner_ld = inner ? apart : 0;
  product.epilogue = call.problem.epilogue == Epilogue::kGeluTanh
                         ? BlasEpilogue::kGelu
                         : BlasEpilogue::kGeluBackward;
  return true;
}

// What the product was left without: z, which may be c, into c.
void Activate(Context& context, const MatmulCall& call, const Share& share,
              const TensorView& z) {
  const ActivationProblem gelu = {Activation::kGeluTanh};
  switch (call.problem.epilogue) {
    case Epilogue::kNone:
    case Epilogue::kSiluGated:  // RunGated
      return;
    case Epilogue::kGeluTanh:
      return ActivationForward(context, gelu, {.x = z, .y = share.c});
    case Epilogue::kGeluTanhBackward:
      return ActivationBackward(context, gelu, {.x = share.inner},
                                {.dy = z, .dx = share.c});
  }
}

// Where A·B + bias is stored if the activation is a step of its own.
TensorView PlaceOf(const MatmulCall& call, const Share& share) {
  const bool inside =
      call.problem.epilogue == Epilogue::kGeluTanh && share.inner;
  return inside ? share.inner : share.c;
}

void Multiply(Context& context, const MatmulCall& call,
              const ConstTensorView& a, Share share) {
  CudaBlas& blas = CudaOf(context).Blas();
  if (call.problem.epilogue != Epilogue::kNone) {
    BlasProduct whole = ProductOf(call, a, share);
    if (AskForEpilogue(call, a, share, whole) && blas.Multiply(whole)) return;
  }
  const Share asked = share;
  share.c = PlaceOf(call, asked);
  const auto& [b, bias, inner, c] = share;
  BlasProduct product = ProductOf(call, a, share);
  if (blas.Multiply(product)) return Activate(context, call, asked, c);
  product.bias = nullptr;
  if (!blas.Multiply(product)) {
    throw Error(
        ErrorCode::kUnsupported,
        {"matmul", "a product that cuBLASLt has an algorithm for",
         ToString(call.problem) + " of " + ToString(a) + " and " + ToString(b),
         ""});
  }
  if (bias) AddBias(context, bias, c);
  Activate(context, call, asked, c);
}

// ---- Long lines ----
//
// The library has its fast algorithms for lines of halves that are whole packs
// of 16 bytes and lie at multiples of them. What a long line has beyond them is
// a product of its own: 50 257 columns at once take several times as long.

// Where a line of so many halves is cut; 0: nowhere.
int64_t CutOf(int64_t length) {
  constexpr int64_t kLong = 4096, kPack = 8, kTile = 64;
  return length < kLong || length % kPack == 0 ? 0 : length / kTile * kTile;
}

// A product of some of the rows, columns or summands of `call`.
struct Piece {
  MatmulProblem problem;
  ConstTensorView a;
  Share share;
};
void MultiplyPiece(Context& context, const MatmulArgs& args,
                   const Piece& piece) {
  const MatmulCall call = {piece.problem, args};
  const auto& [problem, a, share] = piece;
  const bool whole = a.type == DType::kF32 || !HasAlignedLines(a) ||
                     problem.epilogue != Epilogue::kNone ||
                     !HasAlignedLines(share.b) || !HasAlignedLines(share.c);
  const bool a_along_k = problem.a == Operand::kPlain;
  const bool b_along_k = OperandOnDevice(call) == Operand::kTransposed;
  const int64_t n = share.c.shape[1], m = share.c.shape[0], k = problem.k;
  const auto columns = [&](int64_t begin, int64_t end) {
    Piece part = piece;
    part.share.b = Slice(share.b, b_along_k ? 0 : 1, begin, end);
    part.share.bias = Slice(share.bias, 0, begin, end);
    part.share.c = Columns(share.c, begin, end);
    return part;
  };
  const auto rows = [&](int64_t begin, int64_t end) {
    Piece part = piece;
    part.a = Slice(a, a_along_k ? 0 : 1, begin, end);
    part.share.c = Rows(share.c, begin, end);
    return part;
  };
  const auto summands = [&](int64_t begin, int64_t end) {
    Piece part = piece;
    part.problem.k = end - begin;
    part.a = Slice(a, a_along_k ? 1 : 0, begin, end);
    part.share.b = Slice(share.b, b_along_k ? 1 : 0, begin, end);
    return part;
  };
  if (const int64_t at = CutOf(n); at > 0 && !whole) {
    MultiplyPiece(context, args, columns(0, at));
    return MultiplyPiece(context, args, columns(at, n));
  }
  if (const int64_t at = CutOf(m); at > 0 && !whole && !a_along_k) {
    MultiplyPiece(context, args, rows(0, at));
    return MultiplyPiece(context, args, rows(at, m));
  }
  if (const int64_t at = CutOf(k);
      at > 0 && !whole && (a_along_k || b_along_k)) {
    // The small part first: it is the one that C's type rounds.
    MultiplyPiece(context, args, summands(at, k));
    Piece most = summands(0, at);
    most.problem.store = Store::kAccumulate;
    most.share.bias = {};
    return MultiplyPiece(context, args, most);
  }
  Multiply(context, call, a, share);
}

Reason WhyNot(const MatmulCall& call) {
  if (!call.args.c.device.is_cuda()) return "runs on CUDA only";
  return WhyNotPrecision(call.problem.precision, call.args.a.type);
}

void Product(Context& context, const MatmulCall& call) {
  const MatmulArgs& args = call.args;
  if (call.problem.k == 0) {
    const Share all = {{}, args.bias, args.inner, args.c};
    MatmulArgs stored = args;
    stored.c = PlaceOf(call, all);
    StoreBias(context, {call.problem, stored});
    return Activate(context, call, all, stored.c);
  }
  Temp a_copy;
  const ConstTensorView a = Taken(context, args.a, args.a.type, a_copy);
  const auto parts = args.weights != nullptr
                         ? WeightsOnDevice(context, *args.weights, a.type)
                         : PartsOf(args);
  int64_t begin = 0;
  for (const ConstTensorView& part : parts) {
    const int64_t end = begin + ColumnsOf(part, OperandOnDevice(call));
    if (end == begin) continue;
    Temp b_copy, bias_copy;
    const TensorView c = Columns(args.c, begin, end);
    const ConstTensorView bias =
        TakenBias(context, Slice(args.bias, 0, begin, end), c.type, bias_copy);
    const TensorView inner =
        args.inner ? Columns(args.inner, begin, end) : TensorView();
    MultiplyPiece(context, args,
                  {call.problem,
                   a,
                   {Taken(context, part, a.type, b_copy), bias, inner, c}});
    begin = end;
  }
}

// The product as a whole, then the activation.
void RunGated(Context& context, const MatmulCall& call) {
  const TensorView& c = call.args.c;
  const int64_t half = ColumnsOfC(call.problem);
  const Temp both(context, c.type, {call.problem.m, call.problem.n});
  MatmulProblem problem = call.problem;
  problem.epilogue = Epilogue::kNone;
  MatmulArgs args = call.args;
  args.c = both.view();
  Product(context, {problem, args});
  ActivationForward(context, {Activation::kSilu},
                    {.x = Columns(both.view(), 0, half),
                     .up = Columns(both.view(), half, 2 * half),
                     .y = c});
}

void Run(Context& context, const MatmulCall& call) {
  call.problem.epilogue == Epilogue::kSiluGated ? RunGated(context, call)
                                                : Product(context, call);
}

}  // namespace

const Implementation<MatmulCall> kMatmulCudaLt = {
    .name = "cuda.lt", .why_not = WhyNot, .run = Run};

}  // namespace headwise
