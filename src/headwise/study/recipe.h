// What study recipe measures of the models that it trains to the end of the
// recipe. Expectations stand in recipe_heads.cc, each before any run.
#pragma once

#include <memory>
#include <vector>

#include "headwise/context.h"
#include "headwise/study/layers.h"
#include "headwise/study/study.h"
#include "headwise/study/support/novels.h"

namespace headwise {

// One value a seed.
struct RecipeFound {
  // Twins: eight heads a layer beside one.
  std::vector<double> parameters, gain, divergence, divergence_new, overlap;
  std::vector<double> roles_one, roles_many, most_roles_one, most_roles_many;
  std::vector<double> induction_one;
  // Heads of the eight.
  std::vector<double> induction, induction_new, half_there, closed;
  std::vector<double> induction_heads, previous_heads, delimiter_heads;
  std::vector<double> nearest, far_over_near;
  std::vector<double> specialised, specialised_new, agreement, agreement_new;
  std::vector<double> gini, heads_for_90, critical, backup, auxiliary,
      redundant, noise, twins, repaired, effect;
  // Twelve layers.
  std::vector<double> deep_previous, deep_induction, apart, distance;
  LayerScores probes;
};

// A model of the recipe before its training.
std::unique_ptr<TinyModel> NewRecipeModel(Context& context,
                                          const Language& language,
                                          const LanguageShape& shape,
                                          uint64_t seed, int64_t steps);

// Adds what one seed shows: trains a model of one head a layer and one of
// eight; one of twelve layers. Both draw what they show of the first seed.
void AddTwins(Context& context, const Language& language, uint64_t seed,
              int64_t steps, StudyClock& clock, RecipeFound& found,
              StudyResult& result);
void AddDeep(Context& context, const Language& language,
             const LayerProbes& probes, uint64_t seed, int64_t steps,
             StudyClock& clock, RecipeFound& found);

void JudgeRecipe(const RecipeFound& found, StudyResult& result);

}  // namespace headwise
