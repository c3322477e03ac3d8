// Contexts are independent: two that are used in turn give what one gives.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "headwise/attention.h"
#include "headwise/ops/attention/testing/random_problem.h"

namespace headwise::contexts_test {
namespace {

// Forward, then backward: the second reads what the first has kept, and both
// take scratch.
class Step {
 public:
  explicit Step(uint64_t seed)
      : r_(MakeRandomProblem(seed, {.work = 2e5, .max_len = 200})) {
    const AttentionProblem& p = r_.problem;
    args_ = r_.args;
    const bool packed = p.packed;
    const int64_t batch = packed ? 1 : p.batch;
    const int64_t queries = packed ? args_.q.shape[1] : p.query_len;
    const int64_t width = p.value_dim == 0 ? p.head_dim : p.value_dim;
    out_ = Tensor(DType::kF32, {batch, queries, p.heads, width});
    ungated_ = Tensor(DType::kF32, {batch, queries, p.heads, width});
    lse_ = Tensor(DType::kF32, {batch, p.heads, queries});
    dq_ = Tensor(DType::kF32, {batch, queries, p.heads, p.head_dim});
    args_.out = out_.view();
    args_.ungated = ungated_.view();
    args_.lse = lse_.view();
    grads_.dout = r_.dout;
    grads_.dq = dq_.view();
  }

  void Forward(Context& context) {
    AttentionForward(context, r_.problem, args_);
  }
  void Backward(Context& context) {
    AttentionBackward(context, r_.problem, args_, grads_);
  }
  bool operator==(const Step& other) const {
    return SameBits(out_, other.out_) && SameBits(lse_, other.lse_) &&
           SameBits(dq_, other.dq_);
  }
  std::string Text() const { return r_.Text(); }

 private:
  static bool SameBits(const Tensor& a, const Tensor& b) {
    return a.bytes() == b.bytes() &&
           std::memcmp(a.view().data, b.view().data, a.bytes()) == 0;
  }

  RandomProblem r_;
  AttentionArgs args_;
  AttentionGrads grads_;
  Tensor out_, ungated_, lse_, dq_;
};

TEST(Contexts, TwoInTurnGiveTheSameAsOne) {
  Context one({.threads = 2, .implementations = ""});
  Context left({.threads = 2, .implementations = ""}),
      right({.threads = 1, .implementations = ""});
  const uint64_t first = TestSeed();
  for (uint64_t seed = first; seed < first + 40; seed += 2) {
    Step a(seed), b(seed + 1), again_a(seed), again_b(seed + 1);
    a.Forward(one);
    a.Backward(one);
    b.Forward(one);
    b.Backward(one);
    again_a.Forward(left);
    again_b.Forward(right);
    again_a.Backward(left);
    again_b.Backward(right);
    EXPECT_TRUE(a == again_a) << a.Text();
    EXPECT_TRUE(b == again_b) << b.Text();
    // What one began another ends.
    Step across(seed);
    across.Forward(right);
    across.Backward(left);
    EXPECT_TRUE(a == across) << a.Text();
  }
}

TEST(Contexts, OfTwoThreadsGiveTheSameAsOne) {
  const uint64_t first = TestSeed();
  std::vector<Step> alone, a, b;  // which stay where they are
  for (std::vector<Step>* steps : {&alone, &a, &b}) steps->reserve(8);
  for (uint64_t seed = first; seed < first + 8; ++seed) {
    for (std::vector<Step>* steps : {&alone, &a, &b}) steps->emplace_back(seed);
  }
  const auto run = [](std::vector<Step>& steps, int threads) {
    Context context({.threads = threads});
    for (Step& step : steps) {
      step.Forward(context);
      step.Backward(context);
    }
  };
  run(alone, 1);
  std::thread other([&] { run(a, 2); });
  run(b, 3);
  other.join();
  for (size_t i = 0; i < alone.size(); ++i) {
    EXPECT_TRUE(a[i] == alone[i]) << alone[i].Text();
    EXPECT_TRUE(b[i] == alone[i]) << alone[i].Text();
  }
}

}  // namespace
}  // namespace headwise::contexts_test
