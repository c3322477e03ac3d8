// Classes of texts. Door: include/headwise/classify.h.
#include "headwise/classify.h"

#include <algorithm>
#include <utility>

#include "headwise/api/state.h"
#include "headwise/api/whole_texts.h"
#include "headwise/base/json.h"
#include "headwise/model/task_head.h"
#include "headwise/runtime/classes.h"

namespace headwise {

TextClasses ClassifyTexts(Transformer& model,
                          std::span<const std::string> texts,
                          const ClassifyJob& job) {
  const ModelUse use(model);
  Transformer::State& state = model.state();
  const ModelConfig& config = state.checkpoint.config();
  const TaskHead head = ReadTaskHead(ReadJson(model.folder() / "config.json"),
                                     config, state.checkpoint.weights());
  WholeTexts read = ReadWholeTexts(
      model, texts, "", job.context > 0 ? job.context : config.context);
  TextClasses result;
  result.labels = head.labels;
  result.of_tokens = head.kind == TaskKind::kToken;
  std::vector<float> logits;
  ForBatches(read, [&](const TextBatch& batch) {
    const Tensor some =
        ClassLogits(state.context, state.model(), head, batch.ids,
                    batch.lengths, state.interventions->hooks());
    logits.insert(logits.end(), some.As<float>(),
                  some.As<float>() + some.size());
  });
  result.logits = Tensor(DType::kF32,
                         {std::ssize(logits) / head.classes(), head.classes()});
  std::ranges::copy(logits, result.logits.As<float>());
  result.cut = read.cut;
  result.ids = std::move(read.ids);
  return result;
}

}  // namespace headwise
