// Claim: several heads are to one head as a team is to one person.
// Expectation: an average of one-head models beats its mean member (as any
//   average does), yet is another thing than one model of as many heads: that
//   one needs a quarter of the parameters, and its heads depend on each other
//   (closing one costs more than a member's leaving).
// Kind: hypothesis.
#include <fmt/core.h>

#include <memory>
#include <string>
#include <vector>

#include "headwise/model/head_ref.h"
#include "headwise/runtime/gates.h"
#include "headwise/study/study.h"
#include "headwise/study/support/story.h"

namespace headwise {
namespace {

constexpr int64_t kMembers = 4;
constexpr int64_t kSequences = 48;  // to evaluate on

using Probabilities = std::vector<double>;

// The mean of the members' distributions, one of them left out (−1: none).
Probabilities Average(const std::vector<Probabilities>& members, int64_t out) {
  Probabilities mean(members[0].size());
  const auto count = static_cast<double>(kMembers - (out >= 0 ? 1 : 0));
  for (int64_t m = 0; m < kMembers; ++m) {
    if (m == out) continue;
    for (size_t i = 0; i < mean.size(); ++i) mean[i] += members[m][i] / count;
  }
  return mean;
}

// Over seeds, losses in nats a token.
struct Outcome {
  std::vector<double> member, team, heads, without_member, without_head;
  int64_t parameters = 0;  // of one model
};

class Trials {
 public:
  Trials(Context& context, const StudyText& text, int64_t steps,
         StudyClock& clock)
      : context_(context), text_(text), steps_(steps), clock_(clock) {}

  void Add(uint64_t seed, Outcome& outcome) {
    const TrainBatch held_out =
        MadeBatches(kHeldOutSeed, text_.held_out).Make(0, kSequences);
    std::vector<Probabilities> members;
    double mean = 0;
    for (int64_t m = 0; m < kMembers; ++m) {
      const auto tiny = Trained(1, seed * 100 + static_cast<uint64_t>(m));
      members.push_back(TargetProbabilities(context_, tiny->model(), held_out));
      mean += MeanLoss(members.back()) / kMembers;
    }
    outcome.member.push_back(mean);
    const double team = MeanLoss(Average(members, -1));
    outcome.team.push_back(team);
    double left = 0;
    for (int64_t m = 0; m < kMembers; ++m) {
      left += (MeanLoss(Average(members, m)) - team) / kMembers;
    }
    outcome.without_member.push_back(left);

    const auto many = Trained(kMembers, seed * 100);
    outcome.parameters = many->store().Count();
    const double whole =
        MeanLoss(TargetProbabilities(context_, many->model(), held_out));
    outcome.heads.push_back(whole);
    const std::vector<HeadRef> heads = AllHeads(many->model());
    double closed = 0;
    for (const HeadRef& head : heads) {
      ClosedHeads hooks(many->model(), std::vector<HeadRef>{head});
      const double loss = MeanLoss(
          TargetProbabilities(context_, many->model(), held_out, &hooks));
      closed += (loss - whole) / static_cast<double>(heads.size());
    }
    outcome.without_head.push_back(closed);
  }

 private:
  // Members differ in their weights' seed; all read the same data.
  std::unique_ptr<TinyModel> Trained(int64_t heads, uint64_t seed) {
    TrainConfig how = StoryTraining(seed, steps_);
    how.batch = 8;
    auto tiny =
        std::make_unique<TinyModel>(context_,
                                    TinyGpt2({.layers = 2,
                                              .heads = heads,
                                              .vocabulary = text_.vocabulary,
                                              .context = kStoryLength}),
                                    how);
    tiny->Train(MadeBatches(seed / 100, text_.train), clock_);
    return tiny;
  }

  Context& context_;
  const StudyText& text_;
  int64_t steps_;
  StudyClock& clock_;
};

StudyResult Run(Context& context, const StudyRequest& request) {
  StudyResult result;
  result.seeds = StudySeeds(request);
  const StudyText text = OpenStudyText(request);
  const int64_t steps = StudySteps(request, 250, 2000);
  StudyClock clock(
      request, "team",
      (kMembers + 1) * steps * static_cast<int64_t>(result.seeds.size()));
  Outcome outcome;
  Trials trials(context, text, steps, clock);
  for (const uint64_t seed : result.seeds) trials.Add(seed, outcome);

  const double member = MeanOf(outcome.member), team = MeanOf(outcome.team);
  const double heads = MeanOf(outcome.heads);
  result.AtMost("loss of the team − mean loss of its members",
                DifferenceOverSeeds(outcome.team, outcome.member), 0);
  result.AtMost("loss of one model of 4 heads − of one of 1 head",
                DifferenceOverSeeds(outcome.heads, outcome.member), 0);
  std::vector<double> times;
  for (size_t s = 0; s < result.seeds.size(); ++s) {
    times.push_back(outcome.without_head[s] / outcome.without_member[s]);
  }
  result.AtLeast("closing a head of 4 ÷ leaving out a member of 4, in loss",
                 OverSeeds(times), 2);
  result.Report("loss of the team − of one model of 4 heads", team - heads);
  const auto count = [](int64_t n) { return std::to_string(n); };
  result.tables.push_back(
      {"One head four times, or four heads once",
       {"", "parameters", "held-out loss", "without one part"},
       {{"a member: 1 head", count(outcome.parameters),
         ShowInterval(OverSeeds(outcome.member)), "–"},
        {"the team: 4 members averaged", count(kMembers * outcome.parameters),
         ShowInterval(OverSeeds(outcome.team)),
         fmt::format("{:+.4f}", MeanOf(outcome.without_member))},
        {"one model of 4 heads", count(outcome.parameters),
         ShowInterval(OverSeeds(outcome.heads)),
         fmt::format("{:+.4f}", MeanOf(outcome.without_head))}}});
  result.pictures.push_back(
      LinePlot{"Loss, whole and without one part (a member or a head)",
               "parts taken away",
               "nats a token",
               false,
               false,
               {{"team of 4 one-head models",
                 {0, 1},
                 {team, team + MeanOf(outcome.without_member)}},
                {"one model of 4 heads",
                 {0, 1},
                 {heads, heads + MeanOf(outcome.without_head)}},
                {"one-head model", {0, 1}, {member, member}}}});
  result.remark = fmt::format(
      "Trained on {}. A team votes: its answers are averaged. Heads are "
      "concatenated and mixed inside one model, and later layers are built on "
      "each of them.",
      text.name);
  return result;
}

}  // namespace

const Study kTeamStudy = {
    .name = "team",
    .claim = "Several heads are to one head as a team is to one person.",
    .expectation =
        "averaging one-head models helps, but is another thing: closing a "
        "head costs at least twice what a member's leaving costs",
    .kind = StudyKind::kHypothesis,
    .run = Run,
    .trained = true};

}  // namespace headwise
