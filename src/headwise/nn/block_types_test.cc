// Blocks of elements with scales: no operator reads them as something else.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "headwise/attention.h"
#include "headwise/base/rng.h"
#include "headwise/context.h"
#include "headwise/error.h"
#include "headwise/ops/activation/activation.h"
#include "headwise/ops/adamw/adamw.h"
#include "headwise/ops/dropout/dropout.h"
#include "headwise/ops/embedding/embedding.h"
#include "headwise/ops/loss/loss.h"
#include "headwise/ops/matmul/matmul.h"
#include "headwise/ops/norm/norm.h"
#include "headwise/ops/pointwise/pointwise.h"
#include "headwise/ops/rope/rope.h"
#include "headwise/tensor/encoding.h"
#include "headwise/tensor/slice.h"

namespace headwise::block_types_test {
namespace {

Tensor Blocks(const Shape& shape, Rng& rng) {
  Tensor tensor(DType::kQ8_0, shape);
  std::vector<float> values(static_cast<size_t>(tensor.size()));
  for (float& value : values) value = static_cast<float>(rng.Normal());
  Q8FromFloat(values.data(), tensor.size(), tensor.Raw<std::byte>());
  return tensor;
}

template <typename Run>
void ExpectRefused(const char* what, const Run& run) {
  SCOPED_TRACE(what);
  try {
    run();
    ADD_FAILURE() << "expected an error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("q8_0"), std::string::npos)
        << error.what();
  }
}

TEST(BlockTypes, NoOperatorReadsThem) {
  Rng rng(45);
  Context context({.threads = 1, .implementations = ""});
  Tensor q = Blocks({32, 32}, rng), f(DType::kF32, {32, 32}),
         v = Blocks({32}, rng), one(DType::kF32, {32}),
         cube = Blocks({1, 1, 32}, rng), heads = Blocks({1, 32, 1, 32}, rng),
         out(DType::kF32, {1, 32, 1, 32});
  const Tensor ids(DType::kI32, {32});
  ExpectRefused("matmul A", [&] { MatrixProduct(context, q, f); });
  ExpectRefused("matmul B", [&] { MatrixProduct(context, f, q); });
  ExpectRefused("prepared", [&] { Prepare({q.view()}, Operand::kTransposed); });
  ExpectRefused("norm", [&] {
    NormForward(context, {}, {.x = q.view(), .y = q.view()});
  });
  ExpectRefused("norm's weight", [&] {
    NormForward(context, {},
                {.x = f.view(), .weight = v.view(), .y = f.view()});
  });
  ExpectRefused("activation", [&] {
    ActivationForward(context, {}, {.x = q.view(), .y = q.view()});
  });
  ExpectRefused("add", [&] { Add(context, q.view(), q.view(), q.view()); });
  ExpectRefused("sums", [&] { AddColumnSums(context, q.view(), one.view()); });
  ExpectRefused("squares", [&] { SumOfSquares(context, q.view()); });
  ExpectRefused("within", [&] { AllWithin(context, q.view(), 1); });
  ExpectRefused("dropout", [&] {
    Dropout(context, {.rate = 0.5f}, {.x = q.view(), .y = q.view()});
  });
  ExpectRefused("embedding", [&] {
    EmbeddingForward(context, {},
                     {.table = q.view(), .ids = ids.view(), .out = f.view()});
  });
  ExpectRefused("embedding's output", [&] {
    EmbeddingForward(context, {},
                     {.table = f.view(), .ids = ids.view(), .out = q.view()});
  });
  ExpectRefused("loss", [&] {
    CrossEntropy(
        context, {},
        {.logits = q.view(), .targets = ids.view(), .losses = one.view()});
  });
  ExpectRefused("adamw", [&] {
    AdamW(context, {},
          {.value = one.view(),
           .gradient = v.view(),
           .first = one.view(),
           .second = one.view()});
  });
  const Tensor frequencies(DType::kF32, {16});
  ExpectRefused("rope", [&] {
    Rope(context, {},
         {.frequencies = frequencies.view(),
          .positions = Rows(ids.view(), 0, 1),
          .x = cube.view()});
  });
  AttentionProblem problem;
  problem.query_len = problem.key_len = 32;
  problem.head_dim = 32;
  ExpectRefused("attention", [&] {
    AttentionForward(context, problem,
                     {.q = heads.view(),
                      .k = heads.view(),
                      .v = heads.view(),
                      .out = out.view()});
  });
}

}  // namespace
}  // namespace headwise::block_types_test
