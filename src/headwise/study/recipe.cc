// Claims: what heads of trained language models do, how they differ, which
//   matter, and where in depth they stand.
// Expectation: those of recipe_heads.cc, which were written before any of
//   these models was trained; thresholds are the literature's, or the least
//   that is worth a sentence.
// Control: the same models before training; heads dealt anew within their
//   layer, with its power on planted specialists; a model of one head; as many
//   other heads; linear probes of new weights. What is said of induction heads
//   is taken only from models in which they formed.
// Kind: hypothesis.
#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <vector>

#include "headwise/study/recipe.h"
#include "headwise/study/specialise.h"
#include "headwise/study/study.h"

namespace headwise {
namespace recipe_study {
namespace {

// What the control of specialisation can find: of planted heads.
StudyTable PowerTable() {
  constexpr uint64_t kDraws = 5;
  StudyTable table{
      "Planted specialists among 48 heads: roles on another text, "
      "own head − 97.5 % of others of its layer",
      {"specialists", "smallest and largest of five"},
      {}};
  for (const int64_t specialists : {-1, 0, 2, 4, 8, 14, 20, 48}) {
    std::vector<double> draws;
    for (uint64_t seed = 1; seed <= kDraws; ++seed) {
      draws.push_back(PlantedAgreement(specialists, seed));
    }
    const auto [least, most] = std::ranges::minmax_element(draws);
    table.rows.push_back({specialists < 0
                              ? "none: heads of a layer share one role"
                              : std::to_string(specialists),
                          fmt::format("{:.3f} … {:.3f}", *least, *most)});
  }
  return table;
}

StudyResult Run(Context& context, const StudyRequest& request) {
  StudyResult result;
  result.seeds = StudySeeds(request);
  const Language language(context, request);
  const int64_t steps = StudySteps(request, 60, 4000);
  StudyClock clock(request, "recipe",
                   3 * steps * static_cast<int64_t>(result.seeds.size()));
  if (request.full && !language.novels()) result.InformOnly();
  const LayerProbes probes(language);
  RecipeFound found;
  for (const uint64_t seed : result.seeds) {
    AddTwins(context, language, seed, steps, clock, found, result);
    AddDeep(context, language, probes, seed, steps, clock, found);
  }
  JudgeRecipe(found, result);
  result.tables.push_back(PowerTable());
  result.remark = fmt::format(
      "Models of the recipe trained to its end on {}, with repeated blocks "
      "among it: six layers of eight heads, the same of one head, and twelve "
      "layers of eight. A verdict needs text (--full --text NOVELS).",
      language.name());
  return result;
}

}  // namespace
}  // namespace recipe_study

const Study kRecipeStudy = {
    .name = "recipe",
    .claim =
        "Heads of trained language models look in different ways, have roles "
        "that emerge, matter unequally, and build on earlier ones.",
    .expectation =
        "in five models trained to the end of the recipe: eight heads differ, "
        "carry more roles and predict better than one; induction heads form "
        "and are needed; roles on one text are roles on another; few heads "
        "carry most; the next token is read off late",
    .kind = StudyKind::kHypothesis,
    .run = recipe_study::Run,
    .trained = true,
    .any_device = true,
    .fresh_seeds = kFreshSeeds<401>};

}  // namespace headwise
