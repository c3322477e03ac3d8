// A task that needs several heads at once, and what its heads are worth.
//
// Blocks of six letters, a marker and an answer. The marker names two places
// before it; the answer is the pair of letters that stand there, one token of
// 64. A head that reads both places at once cannot tell which letter came
// first, so an answer takes two heads, and four markers take more.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "headwise/context.h"
#include "headwise/model/head_ref.h"
#include "headwise/model/model.h"
#include "headwise/study/support/tiny_model.h"

namespace headwise {

inline constexpr int64_t kPairVocabulary = 8 + 4 + 64;
inline constexpr int64_t kPairBlock = 8;  // tokens
inline constexpr int64_t kPairBlocks = 8;
inline constexpr int64_t kPairPlaces = 6;

MadeSequence MakePairs(Rng& rng);

// Data of a seed, and the held-out data that all seeds share.
MadeBatches PairData(uint64_t seed);
MadeBatches HeldOutPairs();
inline constexpr int64_t kHeldOutSequences = 64;

// config.json of a small model for it.
Json PairModel(int64_t layers, int64_t heads);
// How it is trained: 16 sequences a step.
TrainConfig PairTraining(int64_t steps, uint64_t seed);

// The model's final states of a batch, [T, width].
Tensor RunPairs(Context& context, const Model& model, const TrainBatch& batch,
                RunHooks& hooks);

// What the heads of a trained model are worth on held-out pairs: how much the
// loss rises when a head's output is set to 0.
struct HeadWorth {
  double loss = 0;             // of the model as it is
  std::vector<double> single;  // rise for each head alone, AllHeads(model)
  double all = 0;              // rise for all of them together
};
HeadWorth WorthOfHeads(Context& context, const Model& model);

// Mean loss on held-out pairs with these heads closed.
double PairLoss(Context& context, const Model& model,
                std::span<const HeadRef> closed);

}  // namespace headwise
