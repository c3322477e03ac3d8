// What a run is made of, from its configuration: tokenizer, data, parameters
// and the model over them.
#pragma once

#include <memory>
#include <optional>

#include "headwise/base/json.h"
#include "headwise/context.h"
#include "headwise/model/model.h"
#include "headwise/model/parameters.h"
#include "headwise/progress.h"
#include "headwise/tokenizer/tokenizer.h"
#include "headwise/train/batch.h"
#include "headwise/train/checkpoints.h"
#include "headwise/train/classifier.h"
#include "headwise/train/config.h"
#include "headwise/train/corpus.h"
#include "headwise/train/text_batches.h"

namespace headwise {

struct Material {
  std::unique_ptr<Tokenizer> tokenizer;
  std::optional<Corpus> corpus;  // language models
  std::shared_ptr<ParameterStore> store;
  std::unique_ptr<Model> model;
  std::optional<Classifier> classifier;
  std::unique_ptr<BatchSource> train;
  std::unique_ptr<BatchSource> validation;  // null: none
  RunFiles files;
  Json data;  // for the manifest
};

// How a run cuts its text into windows for the model.
TextBatchOptions BatchOptionsOf(const TrainConfig& config,
                                const ModelConfig& model,
                                const Tokenizer& tokenizer);

// type: what the model computes in.
Material OpenMaterial(Context& context, DType type, const TrainConfig& config,
                      const OnProgress& progress);

}  // namespace headwise
