// cpu.f32's backward against the reference, and what it promises.
#include "headwise/ops/attention/cpu/backward.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>
#include <utility>

#include "headwise/ops/attention/cpu/random_case.h"

namespace headwise {
namespace {

constexpr double kTolerance = 1e-4;

// Every result of a backward call.
struct Results {
  Tensor dq, dk, dv, dgates, dtable, received;

  explicit Results(const RandomCase& c)
      : dq(DType::kF32, {c.args.q.shape[0], c.args.q.shape[1],
                         c.args.q.shape[2], c.args.q.shape[3]}),
        dk(DType::kF32, {c.args.k.shape[0], c.args.k.shape[1],
                         c.args.k.shape[2], c.args.k.shape[3]}),
        dv(DType::kF32, {c.args.v.shape[0], c.args.v.shape[1],
                         c.args.v.shape[2], c.args.v.shape[3]}),
        dgates(DType::kF32,
               {c.args.q.shape[0], c.args.q.shape[1], c.args.q.shape[2]}),
        dtable(DType::kF32,
               {c.problem.heads, 2 * c.problem.relative_reach + 1}),
        received(DType::kF32,
                 {c.args.q.shape[0], c.problem.heads, c.args.k.shape[1]}) {}

  AttentionGrads Grads(const RandomCase& c, ConstTensorView dout,
                       ConstTensorView dentropy) {
    AttentionGrads grads;
    grads.dout = dout;
    grads.dentropy = dentropy;
    grads.dq = dq.view();
    grads.dk = dk.view();
    grads.dv = dv.view();
    grads.dgates = dgates.view();
    if (c.problem.bias == AttentionBias::kRelative) {
      grads.drelative_table = dtable.view();
    }
    grads.received = received.view();
    return grads;
  }

  std::vector<std::pair<std::string, const Tensor*>> All() const {
    return {{"dq", &dq},         {"dk", &dk},         {"dv", &dv},
            {"dgates", &dgates}, {"dtable", &dtable}, {"received", &received}};
  }
};

void ExpectNear(const Results& a, const Results& b) {
  const auto all = a.All(), expected = b.All();
  for (size_t t = 0; t < all.size(); ++t) {
    for (int64_t i = 0; i < all[t].second->size(); ++i) {
      const double x = all[t].second->As<float>()[i];
      const double y = expected[t].second->As<float>()[i];
      ASSERT_NEAR(x, y, kTolerance * std::max(1.0, std::abs(y)))
          << all[t].first << " at " << i;
    }
  }
}

class Backward : public testing::TestWithParam<int> {
 protected:
  Context one_{ContextOptions{1, ""}};
  Context two_{ContextOptions{2, ""}};
};

TEST_P(Backward, AgreesWithTheReferenceAndWithItselfOnTwoThreads) {
  RandomCase c(GetParam(), GetParam() % 10 == 0 ? 900 : 130);
  SCOPED_TRACE(ToString(c.problem));
  kAttentionReference.forward(one_, c.problem, c.args);
  const int64_t e = c.args.v.shape[3];
  const int64_t b = c.args.q.shape[0], m = c.args.q.shape[1];
  const TensorView dout = c.Make({b, m, c.problem.heads, e}, 1.0f);
  TensorView dentropy;
  if (GetParam() % 3 == 0) dentropy = c.Make({b, c.problem.heads, m}, 1.0f);
  Results expected(c), first(c), second(c);
  kAttentionReference.backward(one_, c.problem, c.args,
                               expected.Grads(c, dout, dentropy));
  BackwardF32(one_, c.problem, c.args, first.Grads(c, dout, dentropy));
  ExpectNear(first, expected);
  BackwardF32(two_, c.problem, c.args, second.Grads(c, dout, dentropy));
  for (size_t t = 0; t < first.All().size(); ++t) {
    EXPECT_EQ(std::memcmp(first.All()[t].second->As<float>(),
                          second.All()[t].second->As<float>(),
                          first.All()[t].second->bytes()),
              0)
        << first.All()[t].first;
  }
}

INSTANTIATE_TEST_SUITE_P(Random, Backward, testing::Range(0, 120));

}  // namespace
}  // namespace headwise
