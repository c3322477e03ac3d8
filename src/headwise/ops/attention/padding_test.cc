// When heads are padded: for an implementation that comes first and wants a
// multiple, and for no other reason. What padded heads give is held to the
// reference by agreement_test.cc.
#include "headwise/ops/attention/padding.h"

#include <gtest/gtest.h>

#include <string_view>
#include <vector>

#include "headwise/ops/attention/geometry.h"

namespace headwise::padding_test {
namespace {

AttentionProblem ProblemOf(int64_t head_dim, int64_t value_dim = 0) {
  AttentionProblem problem;
  problem.query_len = problem.key_len = 3;
  problem.head_dim = head_dim;
  problem.value_dim = value_dim;
  return problem;
}

Reason WantsEights(const AttentionProblem& problem) {
  return problem.head_dim % 8 == 0 && ValueDim(problem) % 8 == 0 &&
                 problem.head_dim <= 64
             ? ""
             : "wants eights up to 64";
}

const std::vector<AttentionImplementation> kEntries = {
    {"eights",
     [](const AttentionCall& call) {
       return WhyNotProblems(call, WantsEights);
     },
     nullptr},
    {"any", [](const AttentionCall&) -> Reason { return ""; }, nullptr},
};

HeadWidths Best(const AttentionProblem& problem, std::string_view wanted = "") {
  return BestWidths({"attention", kEntries}, wanted, AttentionPass::kForward,
                    problem);
}

TEST(HeadPadding, WidensForABetterImplementationOnly) {
  EXPECT_EQ(Best(ProblemOf(2)), (HeadWidths{8, 8}));
  EXPECT_EQ(Best(ProblemOf(8, 3)), (HeadWidths{8, 8}));
  EXPECT_EQ(Best(ProblemOf(63, 17)), (HeadWidths{64, 24}));
  // Too wide for it either way.
  EXPECT_EQ(Best(ProblemOf(65)), (HeadWidths{65, 65}));
}

TEST(HeadPadding, AsksTheOneImplementationThatIsWanted) {
  EXPECT_EQ(Best(ProblemOf(2), "any"), (HeadWidths{2, 2}));
  EXPECT_EQ(Best(ProblemOf(2), "eights"), (HeadWidths{8, 8}));
}

TEST(HeadPadding, LeavesHeadsOnTheHostAsTheyAre) {
  const Context context({.threads = 1, .implementations = ""});
  for (const AttentionPass pass :
       {AttentionPass::kForward, AttentionPass::kBackward}) {
    for (const DType type : {DType::kF32, DType::kBF16, DType::kF16}) {
      AttentionProblem problem = ProblemOf(6, 5);
      problem.type = type;
      EXPECT_EQ(BestWidths(context, pass, problem), (HeadWidths{6, 5}));
    }
  }
}

TEST(HeadPadding, KeepsTheScaleOfTheHeadsOwnColumns) {
  const AttentionProblem wide = Widened(ProblemOf(4), {8, 8});
  EXPECT_EQ(wide.head_dim, 8);
  EXPECT_EQ(wide.value_dim, 8);
  EXPECT_FLOAT_EQ(wide.scale, 0.5F);
}

}  // namespace
}  // namespace headwise::padding_test
