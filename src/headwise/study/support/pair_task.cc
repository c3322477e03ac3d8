// Two letters from two places. Door: pair_task.h.
#include "headwise/study/support/pair_task.h"

#include "headwise/ops/loss/loss.h"
#include "headwise/runtime/gates.h"

namespace headwise {
namespace {

constexpr int32_t kLetters = 8;
// Places before the marker that each marker names.
constexpr int64_t kPlaces[][2] = {{1, 2}, {3, 4}, {5, 6}, {2, 5}};
constexpr int32_t kMarkers = 4;
// Of the generator's seeds, none of which is as large.
constexpr uint64_t kHeldOutSeed = uint64_t{1} << 40;

}  // namespace

MadeSequence MakePairs(Rng& rng) {
  MadeSequence sequence;
  for (int64_t block = 0; block < kPairBlocks; ++block) {
    int32_t letters[kPairPlaces];
    for (int32_t& letter : letters) {
      letter = static_cast<int32_t>(rng.Below(kLetters));
      sequence.ids.push_back(letter);
    }
    const auto marker = static_cast<int32_t>(rng.Below(kMarkers));
    const int64_t* places = kPlaces[marker];
    sequence.ids.push_back(kLetters + marker);
    sequence.targets.resize(sequence.ids.size(), kIgnoreTarget);
    sequence.targets.back() = kLetters + kMarkers +
                              kLetters * letters[kPairPlaces - places[0]] +
                              letters[kPairPlaces - places[1]];
    sequence.ids.push_back(sequence.targets.back());
  }
  sequence.targets.resize(sequence.ids.size(), kIgnoreTarget);
  return sequence;
}

MadeBatches PairData(uint64_t seed) { return {seed, MakePairs}; }

MadeBatches HeldOutPairs() { return {kHeldOutSeed, MakePairs}; }

Json PairModel(int64_t layers, int64_t heads) {
  TinyShape shape;
  shape.layers = layers;
  shape.heads = heads;
  shape.head_dim = 8;
  shape.vocabulary = kPairVocabulary;
  shape.context = kPairBlock * kPairBlocks;
  Json config = TinyLlama(shape);
  // Six places are told apart by angles that suit them.
  config["rope_theta"] = 100;
  return config;
}

TrainConfig PairTraining(int64_t steps, uint64_t seed) {
  TrainConfig how;
  how.steps = steps;
  how.batch = 16;
  how.rate = 5e-3;
  how.warmup = std::max<int64_t>(1, steps / 20);
  how.seed = seed;
  return how;
}

Tensor RunPairs(Context& context, const Model& model, const TrainBatch& batch,
                RunHooks& hooks) {
  StackInput input;
  input.ids = batch.ids;
  input.batch = &batch.batch;
  input.hooks = &hooks;
  Tensor x(context, model.type(), {batch.batch.total(), model.config().width});
  model.Run(context, model.stack(), input, x.view());
  return x;
}

double PairLoss(Context& context, const Model& model,
                std::span<const HeadRef> closed) {
  ClosedHeads hooks(model, closed);
  const TrainBatch batch = HeldOutPairs().Make(0, kHeldOutSequences);
  const Tensor x = RunPairs(context, model, batch, hooks);
  HeadTargets targets;
  targets.targets = batch.targets;
  return model.HeadLoss(context, x.view(), targets) /
         static_cast<double>(batch.CountTargets());
}

HeadWorth WorthOfHeads(Context& context, const Model& model) {
  HeadWorth worth;
  worth.loss = PairLoss(context, model, {});
  const std::vector<HeadRef> heads = AllHeads(model);
  for (const HeadRef& head : heads) {
    worth.single.push_back(PairLoss(context, model, {{head}}) - worth.loss);
  }
  worth.all = PairLoss(context, model, heads) - worth.loss;
  return worth;
}

}  // namespace headwise
