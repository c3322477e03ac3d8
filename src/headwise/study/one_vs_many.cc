// Claim: one head has one pattern and one subspace and must compromise; many
//   have many and specialise; many are more expressive for as many parameters.
// Expectation: equal parameters; eight heads look in different ways and read
//   different subspaces, carry more roles, and predict no worse than one head
//   of the same width, depth, data and seed.
// Control: heads of new weights, for the patterns and the subspaces.
// Kind: hypothesis.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <numbers>
#include <set>
#include <string>
#include <vector>

#include "headwise/heads/roles/roles.h"
#include "headwise/heads/similarity/similarity.h"
#include "headwise/runtime/attention_maps.h"
#include "headwise/study/one_vs_many.h"
#include "headwise/study/study.h"
#include "headwise/study/support/novels.h"
#include "headwise/tensor/matrix.h"

namespace headwise {
namespace one_vs_many_study {
namespace {

constexpr int64_t kHeads = 8;
constexpr Bounds kDivergence = {0, std::numbers::ln2};
constexpr int64_t kEveryToken = std::numeric_limits<int64_t>::max();
constexpr int64_t kCompared = 16;  // windows that heads are compared on
constexpr int64_t kProfiled = 32;  // windows that roles are found on

struct Twin {
  std::unique_ptr<TinyModel> tiny;
  std::vector<double> losses;  // one a held-out window
  Series curve;
};

Twin TrainTwin(Context& context, const Language& language, int64_t heads,
               uint64_t seed, int64_t steps, StudyClock& clock) {
  Twin twin;
  twin.curve.name = heads == 1 ? "1 head" : fmt::format("{} heads", heads);
  const TrainConfig how = language.WithRepeats(language.Training(seed, steps));
  twin.tiny = language.NewModel(context, {.heads = heads}, how);
  const int64_t every = std::max<int64_t>(1, steps / 20);
  twin.tiny->Train(*language.Train(how), clock, [&](const StepReport& report) {
    if ((report.step + 1) % every != 0) return;
    twin.curve.x.push_back(static_cast<double>(report.step + 1));
    twin.curve.y.push_back(
        twin.tiny->trainer().Evaluate(language.HeldOut(), 16));
  });
  twin.losses = twin.tiny->SequenceLosses(language.HeldOut(),
                                          language.held_out(kEveryToken));
  return twin;
}

// Where the last layer's heads look from the last word of a beginning.
HeatMap Look(Context& context, const Twin& one, const Twin& many,
             const Language& language) {
  constexpr int64_t kWords = 14;
  std::vector<int32_t> ids = language.HeldOut().Make(0, 1).ids;
  ids.resize(kWords);
  HeatMap map{"From the last word, in the last layer: one head, eight heads",
              {},
              {},
              {}};
  for (const int32_t id : ids) map.columns.push_back(language.Word(id));
  const TokenWindow window = WindowOfIds(ids);
  for (const Twin* twin : {&one, &many}) {
    const HostModel host(context, *twin->tiny);
    std::vector<HeadRef> heads = AllHeads(host.model());
    const int64_t last = heads.back().layer;
    std::erase_if(heads,
                  [&](const HeadRef& head) { return head.layer != last; });
    ShowJob job;
    job.query = kWords - 1;
    for (const MappedHead& head :
         MapHeads(host.context(), host.model(), window, heads, job)) {
      map.rows.push_back(twin == &one ? "one head"
                                      : fmt::format("head {}", head.head.head));
      map.values.insert(map.values.end(), head.strip.begin(), head.strip.end());
    }
  }
  return map;
}

// One value a seed.
struct Found {
  std::vector<double> gains, jsd, jsd_new, overlap, overlap_new;
  std::vector<double> roles_one, roles_many;
  std::vector<double> losses_one, losses_many;  // of every window and seed
  double parameters = 0;                        // 8 heads − 1 head
};

void Add(Context& context, const Language& language, const Twin& one,
         const Twin& many, Found& found) {
  found.parameters = static_cast<double>(many.tiny->store().Count() -
                                         one.tiny->store().Count());
  const std::vector<TokenWindow> windows = language.Windows(0, kCompared);
  const auto difference = [&](const TinyModel& tiny) {
    const HostModel host(context, tiny);
    return DifferenceInLayers(host.context(), host.model(), windows);
  };
  const LayerDifference trained = difference(*many.tiny);
  found.jsd.push_back(trained.jsd);
  found.overlap.push_back(trained.read);
  // The control: the same heads before they learned anything.
  const auto fresh =
      language.NewModel(context, {.heads = kHeads}, many.tiny->how());
  const LayerDifference untrained = difference(*fresh);
  found.jsd_new.push_back(untrained.jsd);
  found.overlap_new.push_back(untrained.read);
  const auto roles = [&](const Twin& twin) {
    const HostModel host(context, *twin.tiny);
    return static_cast<double>(
        RoleNames(language.MakeProfile(host.context(), host.model(), kProfiled))
            .size());
  };
  found.roles_one.push_back(roles(one));
  found.roles_many.push_back(roles(many));
  found.gains.push_back(MeanOf(one.losses) - MeanOf(many.losses));
  found.losses_one.insert(found.losses_one.end(), one.losses.begin(),
                          one.losses.end());
  found.losses_many.insert(found.losses_many.end(), many.losses.begin(),
                           many.losses.end());
}

StudyTable Summary(const Found& found) {
  const double jsd = MeanOf(found.jsd), gain = MeanOf(found.gains);
  const double one = MeanOf(found.roles_one), many = MeanOf(found.roles_many);
  return {
      "The summary that is often printed, checked",
      {"", "1 head", "8 heads", "right?"},
      {{"patterns a layer", "1", fmt::format("8, {:.2f} nats apart", jsd),
        jsd >= 0.05 ? "yes" : "not here"},
       {"subspaces a layer", "1, the whole width",
        fmt::format("8 of an eighth, overlap {:.2f}", MeanOf(found.overlap)),
        "yes, before training too"},
       {"roles found", fmt::format("{:.1f}", one), fmt::format("{:.1f}", many),
        many > one ? "yes" : "not here"},
       {"loss of 1 head − of 8", "–", fmt::format("{:+.4f}", gain),
        gain > 0 ? "yes" : "not here"},
       {"parameters", "equal", "equal", "no: not more"}}};
}

void Judge(const Found& found, StudyResult& result) {
  result.Expect(StudyKind::kLaw);
  result.Near("parameters: 8 heads − 1 head", found.parameters, 0, 0);
  result.Expect(StudyKind::kHypothesis);
  result.AtLeast("patterns: mean divergence of heads of a layer, nats",
                 OverSeeds(found.jsd, kDivergence), 0.05);
  result.Between(0, std::log(2));
  result.AtLeast("patterns: the same − before training, nats",
                 DifferenceOverSeeds(found.jsd, found.jsd_new), 0.05);
  result.AtMost("subspaces: overlap of what heads read (chance 0.125)",
                OverSeeds(found.overlap, kShare), 0.5);
  result.Report("subspaces: the same before training",
                OverSeeds(found.overlap_new, kShare));
  result.AtLeast("different roles: 8 heads − 1 head",
                 DifferenceOverSeeds(found.roles_many, found.roles_one), 1);
  result.AtLeast("loss of 1 head − loss of 8 heads, nats",
                 OverSeeds(found.gains), 0);
  result.OverSequences(PairedDifference(found.losses_one, found.losses_many));
}

StudyResult Run(Context& context, const StudyRequest& request) {
  StudyResult result;
  result.seeds = StudySeeds(request);
  const Language language(context, request);
  const int64_t steps = StudySteps(request, 200, 1000);
  StudyClock clock(request, "one-vs-many",
                   2 * steps * static_cast<int64_t>(result.seeds.size()));
  if (request.full && !language.novels()) result.InformOnly();
  Found found;
  for (const uint64_t seed : result.seeds) {
    const Twin one = TrainTwin(context, language, 1, seed, steps, clock);
    const Twin many = TrainTwin(context, language, kHeads, seed, steps, clock);
    Add(context, language, one, many, found);
    if (seed != result.seeds.front()) continue;
    result.pictures.push_back(LinePlot{"Held-out loss while training",
                                       "step",
                                       "nats a token",
                                       false,
                                       false,
                                       {one.curve, many.curve}});
    result.pictures.push_back(Look(context, one, many, language));
  }
  Judge(found, result);
  result.tables.push_back(Summary(found));
  result.remark = fmt::format(
      "Twins of the same width, depth, seed and data ({}), trained here. A "
      "verdict needs text (--full --text NOVELS): then eight heads of 32 "
      "beside one of 256, in six layers. That heads read different subspaces "
      "is so before training too: any eight slices of a wide space do.",
      language.name());
  result.InformOnly();
  TellShippedTwins(HostContext(context), request, result);
  return result;
}

constexpr StudyChange kHistory[] = {
    {.first = "two layers of width 64, eight heads of 8 dimensions, on a "
              "made-up grammar; 64 held-out sequences of 64 tokens",
     .changed = "the recipe model on novels, eight heads of 32 beside one of "
                "256, every held-out token; patterns are also held against "
                "those of new weights; fresh seeds",
     .why = "heads of 8 dimensions are too narrow to speak for heads as they "
            "are used; differences of patterns need a control",
     .commit = "one-vs-many and specialise: the recipe model on novels, their "
               "controls judged"},
};

}  // namespace
}  // namespace one_vs_many_study

LayerDifference DifferenceInLayers(Context& context, const Model& model,
                                   std::span<const TokenWindow> windows) {
  const HeadSimilarity like = CompareHeads(context, model, windows);
  const Matrix jsd = FromTensor(like.jsd), read = FromTensor(like.ov_read),
               write = FromTensor(like.ov_write);
  LayerDifference difference;
  double pairs = 0;
  for (size_t a = 0; a < like.heads.size(); ++a) {
    for (size_t b = a + 1; b < like.heads.size(); ++b) {
      if (like.heads[a].layer != like.heads[b].layer) continue;
      difference.jsd += jsd(a, b);
      difference.read += read(a, b);
      difference.write += write(a, b);
      ++pairs;
    }
  }
  difference.jsd /= pairs;
  difference.read /= pairs;
  difference.write /= pairs;
  return difference;
}

std::set<std::string> RoleNames(const Profile& profile, int64_t layer) {
  std::set<std::string> names;
  for (const HeadRoles& head : AssignRoles(profile)) {
    if (layer >= 0 && head.head.layer != layer) continue;
    for (const Role& role : head.roles) names.insert(role.name);
  }
  return names;
}

const Study kOneVsManyStudy = {
    .name = "one-vs-many",
    .claim =
        "One head must compromise; many see differently, specialise, and "
        "express more with as many parameters.",
    .expectation =
        "equal parameters, different patterns and subspaces, more roles, and "
        "no higher loss with 8 heads",
    .kind = StudyKind::kHypothesis,
    .run = one_vs_many_study::Run,
    .trained = true,
    .any_device = true,
    .revision = 3,
    .history = one_vs_many_study::kHistory,
    .fresh_seeds = kFreshSeeds<221>};

}  // namespace headwise
