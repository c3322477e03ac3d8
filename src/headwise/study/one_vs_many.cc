// Claim: one head has one pattern and one subspace and must compromise; many
//   have many and specialise; many are more expressive for as many parameters.
// Expectation: equal parameters; eight heads look in different ways and read
//   different subspaces, carry more roles, and predict no worse than one head
//   of the same width, depth, data and seed.
// Kind: hypothesis.
#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "headwise/heads/roles/roles.h"
#include "headwise/heads/similarity/similarity.h"
#include "headwise/runtime/attention_maps.h"
#include "headwise/study/one_vs_many.h"
#include "headwise/study/study.h"
#include "headwise/study/support/story.h"

namespace headwise {
namespace {

constexpr int64_t kHeads = 8;
constexpr int64_t kWidth = 64;
constexpr int64_t kSequences = 64;

struct Twin {
  std::unique_ptr<TinyModel> tiny;
  std::vector<double> losses;  // one a held-out sequence
  Series curve;
};

Twin TrainTwin(Context& context, const StudyText& text, int64_t heads,
               uint64_t seed, int64_t steps, StudyClock& clock) {
  Twin twin;
  twin.curve.name = heads == 1 ? "1 head" : fmt::format("{} heads", heads);
  twin.tiny =
      std::make_unique<TinyModel>(context,
                                  TinyGpt2({.layers = 2,
                                            .heads = heads,
                                            .width = kWidth,
                                            .vocabulary = text.vocabulary,
                                            .context = kStoryLength}),
                                  StoryTraining(seed, steps));
  const MadeBatches held_out(kHeldOutSeed, text.held_out);
  const int64_t every = std::max<int64_t>(1, steps / 20);
  twin.tiny->Train(
      MadeBatches(seed, text.train), clock, [&](const StepReport& report) {
        if ((report.step + 1) % every != 0) return;
        twin.curve.x.push_back(static_cast<double>(report.step + 1));
        twin.curve.y.push_back(twin.tiny->trainer().Evaluate(held_out, 16));
      });
  twin.losses = twin.tiny->SequenceLosses(held_out, kSequences);
  return twin;
}

// Where the last layer's heads look from the last word of a beginning.
HeatMap Look(Context& context, const Twin& one, const Twin& many,
             const StudyText& text) {
  constexpr int64_t kWords = 14;
  Rng rng(kHeldOutSeed, 0);
  std::vector<int32_t> ids = text.held_out(rng).ids;
  ids.resize(kWords);
  HeatMap map{"From the last word, in the last layer: one head, eight heads",
              {},
              {},
              {}};
  for (const int32_t id : ids) {
    map.columns.push_back(text.story ? StoryWord(id) : std::to_string(id));
  }
  const TokenWindow window = WindowOfIds(ids);
  for (const Twin* twin : {&one, &many}) {
    std::vector<HeadRef> heads = AllHeads(twin->tiny->model());
    std::erase_if(heads, [](const HeadRef& head) { return head.layer != 1; });
    MapOptions options;
    options.query = kWords - 1;
    for (const MappedHead& head :
         MapHeads(context, twin->tiny->model(), window, heads, options)) {
      map.rows.push_back(twin == &one ? "one head"
                                      : fmt::format("head {}", head.head.head));
      map.values.insert(map.values.end(), head.strip.begin(), head.strip.end());
    }
  }
  return map;
}

StudyResult Run(Context& context, const StudyRequest& request) {
  StudyResult result;
  result.seeds = StudySeeds(request);
  const StudyText text = OpenStudyText(request);
  const int64_t steps = StudySteps(request, 500, 3000);
  StudyClock clock(request, "one-vs-many",
                   2 * steps * static_cast<int64_t>(result.seeds.size()));
  std::vector<double> gains, jsd, overlap, roles_one, roles_many;
  std::vector<double> losses_one, losses_many;  // of every sequence and seed
  double parameters = 0;
  for (const uint64_t seed : result.seeds) {
    const Twin one = TrainTwin(context, text, 1, seed, steps, clock);
    const Twin many = TrainTwin(context, text, kHeads, seed, steps, clock);
    parameters = static_cast<double>(many.tiny->store().Count() -
                                     one.tiny->store().Count());
    const LayerDifference difference =
        DifferenceInLayers(context, many.tiny->model(),
                           StoryWindows(text.held_out, kHeldOutSeed, 16));
    jsd.push_back(difference.jsd);
    overlap.push_back(difference.read);
    const auto roles = [&](const Twin& twin) {
      return static_cast<double>(
          RoleNames(StoryProfile(context, twin.tiny->model(), text, 32))
              .size());
    };
    roles_one.push_back(roles(one));
    roles_many.push_back(roles(many));
    gains.push_back(MeanOf(one.losses) - MeanOf(many.losses));
    losses_one.insert(losses_one.end(), one.losses.begin(), one.losses.end());
    losses_many.insert(losses_many.end(), many.losses.begin(),
                       many.losses.end());
    if (seed != result.seeds.front()) continue;
    result.pictures.push_back(LinePlot{"Held-out loss while training",
                                       "step",
                                       "nats a token",
                                       false,
                                       false,
                                       {one.curve, many.curve}});
    result.pictures.push_back(Look(context, one, many, text));
  }
  result.Expect(StudyKind::kLaw);
  result.Near("parameters: 8 heads − 1 head", parameters, 0, 0);
  result.Expect(StudyKind::kHypothesis);
  result.AtLeast("patterns: mean divergence of heads of a layer, nats",
                 OverSeeds(jsd), 0.05);
  result.AtMost("subspaces: overlap of what heads read (chance 0.125)",
                OverSeeds(overlap), 0.5);
  result.AtLeast("different roles: 8 heads − 1 head",
                 DifferenceOverSeeds(roles_many, roles_one), 1);
  result.AtLeast("loss of 1 head − loss of 8 heads, nats", OverSeeds(gains), 0);
  result.OverSequences(PairedDifference(losses_one, losses_many));
  result.tables.push_back(
      {"The summary that is often printed, checked",
       {"", "1 head", "8 heads", "right?"},
       {{"patterns a layer", "1",
         fmt::format("8, {:.2f} nats apart", MeanOf(jsd)), "yes"},
        {"subspaces a layer", "1 of 64 dimensions",
         fmt::format("8 of 8, overlap {:.2f}", MeanOf(overlap)), "yes"},
        {"roles found", fmt::format("{:.1f}", MeanOf(roles_one)),
         fmt::format("{:.1f}", MeanOf(roles_many)),
         MeanOf(roles_many) > MeanOf(roles_one) ? "yes" : "not here"},
        {"loss of 1 head − of 8", "–", fmt::format("{:+.4f}", MeanOf(gains)),
         MeanOf(gains) > 0 ? "yes" : "not here"},
        {"parameters", "equal", "equal", "no: not more"}}});
  result.remark = fmt::format(
      "Two small models of two layers, width {}, the same seed and data ({}), "
      "trained here.",
      kWidth, text.name);
  result.InformOnly();
  TellShippedTwins(context, request, result);
  return result;
}

}  // namespace

LayerDifference DifferenceInLayers(Context& context, const Model& model,
                                   std::span<const TokenWindow> windows) {
  const Similarity like = CompareHeads(context, model, windows);
  LayerDifference difference;
  double pairs = 0;
  for (size_t a = 0; a < like.heads.size(); ++a) {
    for (size_t b = a + 1; b < like.heads.size(); ++b) {
      if (like.heads[a].layer != like.heads[b].layer) continue;
      difference.jsd += like.jsd(a, b);
      difference.read += like.ov_read(a, b);
      difference.write += like.ov_write(a, b);
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
    .run = Run,
    .trained = true,
    .any_device = true};

}  // namespace headwise
