// Matrix products in f32: C = A·B, of plain or transposed operands, with an
// optional bias and the choice of adding to C. Weights that are used again with
// many rows are packed once (PackedMatrix); with few they are read as stored.
// Results do not depend on the number of threads.
//
// One list of implementations, best first: cpu.f32 (cpu/f32.cc), reference
// (reference.cc). The register tiles are in cpu/tile-inl.h and also carry the
// attention operator.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "headwise/context.h"
#include "headwise/tensor.h"

namespace headwise {

class LargeMemory;

// How an operand of a product lies in memory.
enum class Operand : uint8_t {
  kPlain,       // A as [m, k], B as [k, n]
  kTransposed,  // A as [k, m], B as [n, k] (a linear layer's weight)
};

enum class Store : uint8_t {
  kOverwrite,   // C = A·B + bias
  kAccumulate,  // C += A·B + bias
};

// Sizes and options: printable, comparable, no pointers.
struct MatmulProblem {
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  Operand a = Operand::kPlain;
  Operand b = Operand::kPlain;
  Store store = Store::kOverwrite;

  friend bool operator==(const MatmulProblem&, const MatmulProblem&) = default;
};

// "128 × 384 × 384, B transposed"
std::string ToString(const MatmulProblem& problem);

// B in the order in which the register tiles read it. Immutable; may be shared
// by threads and contexts.
class PackedMatrix {
 public:
  PackedMatrix() = default;
  // b: [k, n] (kPlain) or [n, k] (kTransposed), f32 with strides of which one
  // is 1, or bf16, f16 with a last stride of 1.
  PackedMatrix(Context& context, const ConstTensorView& b, Operand operand);

  int64_t n() const { return n_; }
  int64_t k() const { return k_; }
  size_t bytes() const { return packed_.bytes(); }
  // [⌈n / width⌉, k, width], zero past n.
  const float* data() const { return packed_.As<float>(); }

 private:
  int64_t n_ = 0;
  int64_t k_ = 0;
  Tensor packed_;
};

// Weights in f16 in the order in which a processor with the right instructions
// reads them for few rows: four lines side by side. Immutable.
class HalfMatrix {
 public:
  // Whether this processor gains by it.
  static bool Supported();

  // What one of n lines takes.
  static size_t BytesOf(int64_t n, int64_t k);

  HalfMatrix() = default;
  // parts: f16 [n_i, k] at any addresses, one below the other (a linear
  // layer's weights). It lies in `memory` where that is given and has room.
  explicit HalfMatrix(std::span<const ConstTensorView> parts,
                      std::shared_ptr<LargeMemory> memory = nullptr);

  int64_t n() const { return n_; }
  int64_t k() const { return k_; }
  size_t bytes() const { return BytesOf(n_, k_); }
  // B's element (p, line), 0 past n.
  float At(int64_t p, int64_t line) const;
  // [k in steps of 8, 4 lines, 8], zero past n and k.
  const uint16_t* group(int64_t index) const { return data_ + index * group_; }

 private:
  int64_t n_ = 0;
  int64_t k_ = 0;
  int64_t group_ = 0;  // numbers of four lines
  const uint16_t* data_ = nullptr;
  std::shared_ptr<const void> owner_;
};

// Up to this many rows of A an unpacked B is read where it lies, once: packing
// it, or reading it as f32 where it is stored in half, would take longer.
inline constexpr int64_t kFewRows = 8;

// The tensors of one product. Matrices are f32 views of rank 2 of whose strides
// one is 1; C's last stride is 1. C overlaps no operand.
struct MatmulArgs {
  ConstTensorView a;
  // f32, or weights as stored: bf16, f16 with a last stride of 1. Null where
  // `packed_b` is given.
  ConstTensorView b;
  const PackedMatrix* packed_b = nullptr;  // instead of b; problem.b is ignored
  const HalfMatrix* half_b = nullptr;      // likewise; at most kFewRows rows
  ConstTensorView bias;                    // [n] f32 or null
  TensorView c;                            // [m, n]
};

// Throws Error(kInvalidArgument) naming the numbers.
void Matmul(Context& context, const MatmulProblem& problem,
            const MatmulArgs& args);

// a · b as a new matrix, either of them transposed.
Tensor MatrixProduct(Context& context, const Tensor& a, const Tensor& b,
                     Operand a_kind = Operand::kPlain,
                     Operand b_kind = Operand::kPlain);

struct MatmulImplementation {
  const char* name = "";
  // Empty, or the reason why this problem cannot be run here and now.
  std::string (*why_not)(const MatmulProblem& problem) = nullptr;
  // Arguments have been validated.
  void (*run)(Context&, const MatmulProblem&, const MatmulArgs&) = nullptr;
};

std::span<const MatmulImplementation> MatmulImplementations();

// The entries, one per file that makes them.
extern const MatmulImplementation kMatmulReference;  // reference.cc
extern const MatmulImplementation kMatmulCpuF32;     // cpu/f32.cc

}  // namespace headwise
