// A small language model in training on sequences that a function makes.
//
//   StudyClock clock(request, "emergence", seeds · steps);
//   TinyModel tiny(context, TinyLlama({.layers = 2}), how);
//   MadeBatches data(seed, [](Rng& rng) { return NextToken(Repeated(rng)); });
//   tiny.Train(data, clock);
//   losses.push_back(tiny.trainer().Evaluate(held_out, 64));
//   result.AtMost("loss", OverSeeds(losses), 1.0);
//
// All of it is deterministic: same request, same figures, at any number of
// threads.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "headwise/base/json.h"
#include "headwise/base/rng.h"
#include "headwise/context.h"
#include "headwise/runtime/on_host.h"
#include "headwise/study/support/trained.h"
#include "headwise/train/batch.h"
#include "headwise/train/trainer.h"

namespace headwise {

// One sequence to train on; kIgnoreTarget where nothing is predicted.
struct MadeSequence {
  std::vector<int32_t> ids;
  std::vector<int32_t> targets;  // as many
};
// Every token but the last predicts its successor.
MadeSequence NextToken(std::span<const int32_t> tokens);

// Sequences that a function makes, each from random numbers of its own: number
// i of a seed is always the same. Another seed is held-out data.
class MadeBatches : public BatchSource {
 public:
  using Maker = std::function<MadeSequence(Rng&)>;
  MadeBatches(uint64_t seed, Maker make)
      : seed_(seed), make_(std::move(make)) {}

  TrainBatch Make(int64_t first, int64_t count) const override;
  int64_t size() const override { return int64_t{1} << 40; }

 private:
  uint64_t seed_;
  Maker make_;
};

struct TinyShape {
  int64_t layers = 2;
  int64_t heads = 4;
  int64_t width = 64;
  int64_t head_dim = 0;  // 0: width / heads
  int64_t hidden = 128;
  int64_t vocabulary = 64;
  int64_t context = 512;
  bool tied = true;  // the output matrix is the embeddings
};
// config.json of a model in Llama's layout.
Json TinyLlama(const TinyShape& shape);
// How such a model is trained unless a study says otherwise.
TrainConfig TinyTraining(uint64_t seed, int64_t steps);

// New weights on the context's device as `how` seeds and scales them; compute:
// what products are of.
std::shared_ptr<ParameterStore> NewParameters(const Context& context,
                                              const ModelConfig& config,
                                              const TrainConfig& how,
                                              DType compute = DType::kF32);

// A small model in training. It stays where it is made: others point into it.
class TinyModel {
 public:
  // config as config.json. how: steps, batch, rate, seed (of the weights), …;
  // data, files and intervals are not used. compute: of products; a half on
  // accelerators only.
  TinyModel(Context& context, const Json& config, TrainConfig how,
            DType compute = DType::kF32);
  // A model that was built from the store.
  TinyModel(Context& context, std::shared_ptr<ParameterStore> store,
            std::unique_ptr<Model> model, TrainConfig how);
  TinyModel(const TinyModel&) = delete;
  TinyModel& operator=(const TinyModel&) = delete;

  const Model& model() const { return *model_; }
  ParameterStore& store() { return *store_; }
  const ParameterStore& store() const { return *store_; }
  Trainer& trainer() { return trainer_; }
  const Trainer& trainer() const { return trainer_; }
  const TrainConfig& how() const { return how_; }

  // The steps that are left, each a tick of the clock.
  void Train(const BatchSource& data, StudyClock& clock,
             const std::function<void(const StepReport&)>& on_step = {},
             RunHooks* hooks = nullptr);

  // Mean loss of each of the first `count` sequences: what runs on the same
  // data are paired by.
  std::vector<double> SequenceLosses(const BatchSource& data,
                                     int64_t count) const;

 private:
  TrainConfig how_;
  std::shared_ptr<ParameterStore> store_;
  std::unique_ptr<Model> model_;
  Trainer trainer_;
};

// A model where the host's analyses can read its weights: itself on the CPU,
// else a copy of it as it is now, in f32. Borrows both.
class HostModel {
 public:
  HostModel(Context& context, const TinyModel& tiny);

  Context& context() const { return host_; }
  const Model& model() const { return *model_; }

 private:
  HostContext host_;
  std::shared_ptr<ParameterStore> store_;
  std::unique_ptr<Model> own_;
  const Model* model_;
};

}  // namespace headwise
