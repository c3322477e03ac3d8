// What random problems hold: every switch of the contract, each beside sink
// logits too, so that agreement on them proves it (README.md has the table).
#include "headwise/ops/attention/testing/random_problem.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "headwise/ops/attention/geometry.h"

namespace headwise::random_problem_test {
namespace {

// The switches of a problem, by name.
std::map<std::string, bool> SwitchesOf(const RandomProblem& r) {
  const AttentionProblem& p = r.problem;
  const int64_t width = ValueDim(p);
  return {
      {"values wider than keys", width > p.head_dim},
      {"values narrower than keys", width < p.head_dim},
      {"keys of 192, values of 128", p.head_dim == 192 && width == 128},
      {"keys of 128, values of 192", p.head_dim == 128 && width == 192},
      {"values are keys", r.args.v.data == r.args.k.data},
      {"grouped heads", p.heads > p.kv_heads},
      {"soft-cap", p.soft_cap != 0},
      {"scale", p.scale != 0},
      {"window", p.mask.before != kUnlimited},
      {"keys outside the window", p.mask.sinks != 0},
      {"ALiBi", p.bias == AttentionBias::kAlibi},
      {"relative bias", p.bias == AttentionBias::kRelative},
      {"gates", bool{r.args.gates}},
      {"replacement", bool{r.args.replacement}},
      {"inactive heads", !r.active_heads.empty()},
      {"packed", p.packed},
      {"ragged", r.args.query_lengths || r.args.key_lengths},
      {"offsets", bool{r.args.query_offsets}},
      {"entropy gradient", bool{r.dentropy}},
      {"all statistics", r.observation.statistics == Statistics::kFull},
  };
}

TEST(RandomProblems, DrawEverySwitchWithAndWithoutSinkLogits) {
  // Few queries, as in decoding, and as many as there are keys.
  for (const int64_t queries : {4, 0}) {
    std::map<std::string, int> with, without;
    for (uint64_t seed = 1; seed <= 300; ++seed) {
      const RandomProblem r = MakeRandomProblem(
          seed, {.work = 1e6, .max_len = 9, .max_query_len = queries});
      for (const auto& [name, on] : SwitchesOf(r)) {
        (r.args.sink_logits ? with : without)[name] += on ? 1 : 0;
      }
    }
    for (const auto& [name, count] : with) EXPECT_GE(count, 1) << name;
    for (const auto& [name, count] : without) EXPECT_GE(count, 1) << name;
  }
}

}  // namespace
}  // namespace headwise::random_problem_test
