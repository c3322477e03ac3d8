// Matrix products: C = A·B, of plain or transposed operands, with an optional
// bias and the choice of adding to C. Weights that are used again are prepared
// (Prepare): what an implementation makes of them is its own affair. Results do
// not depend on the number of threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "headwise/context.h"
#include "headwise/tensor.h"

namespace headwise {

// How an operand of a product lies in memory.
enum class Operand : uint8_t {
  kPlain,       // A as [m, k], B as [k, n]
  kTransposed,  // A as [k, m], B as [n, k] (a linear layer's weight)
};

enum class Store : uint8_t {
  kOverwrite,   // C = A·B + bias
  kAccumulate,  // C += A·B + bias
};

// What is done to A·B + bias before it is stored.
enum class Epilogue : uint8_t {
  kNone,
  kGeluTanh,          // C = gelu(A·B + bias), as Activation::kGeluTanh
  kGeluTanhBackward,  // C = A·B · gelu'(inner)
  // C [m, n/2] = silu(z) · u, where A·B + bias is [z | u]: a gate beside what
  // it gates.
  kSiluGated,
};

// Sizes and options: printable, comparable, no pointers.
struct MatmulProblem {
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  Operand a = Operand::kPlain;
  Operand b = Operand::kPlain;
  Store store = Store::kOverwrite;
  Epilogue epilogue = Epilogue::kNone;  // another one: kOverwrite only
  // Another than kStored: both operands are rounded to it for the product, if
  // they are stored in another type; sums are f32 at least. Where nothing but
  // the reference takes it, that runs.
  Precision precision = Precision::kStored;

  friend bool operator==(const MatmulProblem&, const MatmulProblem&) = default;
};

// "128 × 384 × 384, B transposed, in bf16"
std::string ToString(const MatmulProblem& problem);

class MemoryBudget;  // base/memory_budget.h

// B of many products; prepared_weights.h is for implementations.
class PreparedWeights;

// parts: f32, bf16 or f16 matrices of one k, as `operand` says, with a last
// stride of 1, at any address of the host (unaligned too) or on the device that
// multiplies; B is all of them side by side, C's columns in their order. They
// must not change, and stay. Whatever an implementation makes of them (packed,
// reordered, on a device) is made at the first product that gains by it;
// `release` is called each time after all parts were read for that. Results do
// not depend on whether it was made (LimitPrepared). Threads may share the
// result. Throws Error(kInvalidArgument).
std::shared_ptr<PreparedWeights> Prepare(std::vector<ConstTensorView> parts,
                                         Operand operand,
                                         std::function<void()> release = {});

// Weights that are read one after the other, as a model's are: what is made of
// them may lie in one piece. Before the first product.
void KeepTogether(std::span<const std::shared_ptr<PreparedWeights>> weights);

// What is made of all these together draws on one budget. Where it has too
// little left, products read the weights as they are stored, with the same
// results: slower, and with some MiB of scratch memory. A device other than the
// host has no other way than its copy: products there throw
// Error(kOutOfMemory). Before the first product.
void LimitPrepared(std::span<const std::shared_ptr<PreparedWeights>> weights,
                   const std::shared_ptr<MemoryBudget>& budget);

// A hint that a product of `rows` rows with these comes next but for a little
// work: idle threads may begin to fetch them.
void Expect(Context& context, const PreparedWeights& weights, int64_t rows);

// What was made of the weights so far takes this many bytes.
size_t PreparedBytes(const PreparedWeights& weights);
// The same once the host's entries have made of them all that they ever do.
size_t MostPreparedBytes(const PreparedWeights& weights);
// Bytes that products of `type` on a device other than the host would yet copy
// there; 0 for the host.
size_t MissingBytes(const PreparedWeights& weights, Device device, DType type);

// The tensors of one product, on one device; prepared weights may lie on the
// host all the same. Matrices are views of rank 2 of whose strides one is 1;
// C's last stride is 1. C overlaps no operand. B is given in one of three ways.
//
// A and B are f32, bf16 or f16, C is f32 or of A's type, the bias f32 or of
// C's. Where A and B differ, what runs turns one into the other's type, or both
// into a wider one. Sums are f32 at least, and rounded once to C's type (a bias
// may be rounded to it first).
struct MatmulArgs {
  ConstTensorView a = {};
  ConstTensorView b = {};
  // Several such, side by side.
  std::span<const ConstTensorView> parts = {};
  const PreparedWeights* weights = nullptr;  // problem.b is ignored
  ConstTensorView bias = {};                 // [n] or null
  TensorView c = {};                         // [m, n]; kSiluGated: [m, n/2]
  // [m, n] as C, with rows of its own stride. kGeluTanh: gets what the
  // activation is of, null: not wanted; what C is made of may be rounded to its
  // type or not. kGeluTanhBackward: is read.
  TensorView inner = {};
};

// Whether a product of so many rows with an epilogue costs less than the
// product and then the activation. Where it does not there may be no more than
// the reference for it.
bool FusesEpilogue(const Context& context, DType type, Epilogue epilogue,
                   int64_t rows);

// Throws Error(kInvalidArgument) naming the numbers.
void Matmul(Context& context, const MatmulProblem& problem,
            const MatmulArgs& args);

// a · b as a new f32 matrix on the context's device, either transposed.
Tensor MatrixProduct(Context& context, const Tensor& a, const Tensor& b,
                     Operand a_kind = Operand::kPlain,
                     Operand b_kind = Operand::kPlain);

}  // namespace headwise
