// Two letters from two places. Door: pair_task.h.
#include "headwise/study/support/pair_task.h"

#include <algorithm>
#include <cmath>

#include "headwise/ops/loss/loss.h"
#include "headwise/runtime/gates.h"

namespace headwise {
namespace {

// Ordered pairs of places.
constexpr int64_t kPairs = kPairPlaces * (kPairPlaces - 1);

// Of the generator's seeds, none of which is as large.
constexpr uint64_t kHeldOutPairsSeed = uint64_t{1} << 40;

// Sums of the markers' shares up to each.
std::vector<double> Cumulated() {
  std::vector<double> sums;
  double sum = 0;
  for (int64_t m = 0; m < kPairMarkers; ++m) {
    sums.push_back(sum += 1 / static_cast<double>(m + 1));
  }
  for (double& one : sums) one /= sum;
  return sums;
}

int64_t DrawMarker(Rng& rng) {
  static const std::vector<double> sums = Cumulated();
  const auto found = std::upper_bound(sums.begin(), sums.end(), rng.Uniform());
  return std::min<int64_t>(found - sums.begin(), kPairMarkers - 1);
}

}  // namespace

double PairChance() { return std::log(static_cast<double>(kPairAnswers)); }

void TellPairLoss(std::string name, std::span<const double> losses,
                  StudyResult& result) {
  result.AtMost(std::move(name), OverSeeds(losses, kNotNegative),
                0.75 * PairChance());
  result.Between(PairChance(), 0);
}

PairPlaces PlacesOf(int64_t marker) {
  // Pairs in an order in which no place comes first.
  const int64_t pair = marker * 7 % kPairs;
  const int64_t first = pair / (kPairPlaces - 1);
  const int64_t other = pair % (kPairPlaces - 1);
  return {first + 1, other + (other >= first ? 2 : 1)};
}

MadeSequence MakePairs(Rng& rng) {
  MadeSequence sequence;
  for (int64_t block = 0; block < kPairBlocks; ++block) {
    int32_t letters[kPairPlaces];
    for (int32_t& letter : letters) {
      letter = static_cast<int32_t>(rng.Below(kPairLetters));
      sequence.ids.push_back(letter);
    }
    const int64_t marker = DrawMarker(rng);
    const PairPlaces places = PlacesOf(marker);
    sequence.ids.push_back(static_cast<int32_t>(kPairLetters + marker));
    sequence.targets.resize(sequence.ids.size(), kIgnoreTarget);
    sequence.targets.back() = static_cast<int32_t>(
        kPairLetters + kPairMarkers +
        kPairLetters * letters[kPairPlaces - places.first] +
        letters[kPairPlaces - places.second]);
    sequence.ids.push_back(sequence.targets.back());
  }
  sequence.targets.resize(sequence.ids.size(), kIgnoreTarget);
  return sequence;
}

MadeBatches PairData(uint64_t seed) { return {seed, MakePairs}; }

MadeBatches HeldOutPairs() { return {kHeldOutPairsSeed, MakePairs}; }

Json PairModel(int64_t layers, int64_t heads) {
  TinyShape shape;
  shape.layers = layers;
  shape.heads = heads;
  shape.width = 32;
  shape.head_dim = 8;
  shape.hidden = 64;
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
  how.batch = 8;
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

}  // namespace headwise
