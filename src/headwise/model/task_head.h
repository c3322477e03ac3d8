// Heads of other tasks than guessing tokens: classes of a text or of each
// token, under the names that transformers gives them. Encoders read the first
// state of a text or the mean of all, causal models the last.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "headwise/base/json.h"
#include "headwise/context.h"
#include "headwise/model/config.h"
#include "headwise/model/weights.h"
#include "headwise/nn/linear.h"
#include "headwise/nn/norm.h"
#include "headwise/ops/activation/activation.h"
#include "headwise/tensor/temp.h"

namespace headwise {

enum class TaskKind : uint8_t { kText, kToken };

// How a family names its head of one kind.
struct TaskHeadNames {
  const char* type;  // model_type
  TaskKind kind;
  const char* architecture;  // the class of transformers
  const char* dense;         // before the activation; null: none
  const char* output;
  bool bias = true;  // of the output
  Activation activation = Activation::kTanh;
  Start start = Start::Normal();  // of the output
  const char* norm = nullptr;     // behind the activation; null: none
  // The activation is the layers' one, or the masked-LM head's.
  bool as_layers = false, as_head = false;
};

// Null for a type without such a head.
const TaskHeadNames* FindTaskHead(const std::string& model_type, TaskKind kind);

struct TaskHead {
  TaskKind kind = TaskKind::kText;
  bool averages = false;  // kText: reads the mean of a text's states
  Linear dense;           // may be absent
  Activation activation = Activation::kTanh;
  Norm norm;  // may be absent
  Linear output;
  std::vector<std::string> labels;  // by class

  int64_t classes() const { return output.out(); }
  // states x [rows, d] → logits f32 [rows, classes]
  Temp Run(Context& context, ConstTensorView x) const;
};

// That of the class in "architectures" of config.json. Throws
// Error(kUnsupported) naming the class for one that is not known here.
TaskHead ReadTaskHead(const Json& json, const ModelConfig& config,
                      const WeightSource& weights);

}  // namespace headwise
