// The head of a model that tells classes of texts apart, under the names that
// transformers' …ForSequenceClassification give it. Causal models read the
// last row of a sequence, encoders the first.
#pragma once

#include <cstdint>

#include "headwise/context.h"
#include "headwise/model/config.h"
#include "headwise/model/model.h"
#include "headwise/model/parameters.h"
#include "headwise/nn/linear.h"

namespace headwise {

class Classifier {
 public:
  // Parameters that the store lacks are made there. Throws Error(kUnsupported)
  // for a family without such a head.
  Classifier(const ModelConfig& config, ParameterStore& store, int64_t classes);

  int64_t classes() const { return output_.out(); }

  // As Model::HeadLoss: Σ cross-entropy over the rows of x [rows, d] that have
  // a target; with dx, which is overwritten, also the backward. hits (may be
  // null) counts the rows whose largest logit is the target.
  double Loss(Context& context, ConstTensorView x, const HeadTargets& targets,
              TensorView dx, int64_t* hits) const;

 private:
  Linear dense_;  // may be absent
  Activation activation_ = Activation::kTanh;
  Linear output_;
};

// The class name in transformers of a type's model with this head, or "".
const char* ClassifierArchitecture(const std::string& model_type);

}  // namespace headwise
