// Classifiers: their own head, their own loss. Door:
// include/headwise/evaluate.h.
#include <filesystem>
#include <string>

#include "headwise/api/compared.h"
#include "headwise/api/keep.h"
#include "headwise/api/state.h"
#include "headwise/api/text_input.h"
#include "headwise/base/json.h"
#include "headwise/error.h"
#include "headwise/heads/importance/loss_table.h"
#include "headwise/model/family.h"
#include "headwise/model/head_ref.h"
#include "headwise/model/parameters.h"
#include "headwise/model/text_frame.h"
#include "headwise/runtime/gates.h"
#include "headwise/runtime/session.h"
#include "headwise/train/classifier.h"
#include "headwise/train/pair_batches.h"
#include "headwise/work_group.h"

namespace headwise {
namespace {

constexpr int64_t kLabelReplicates = 2000;

// Classes by the numbers that the model has for their names.
std::vector<int32_t> ClassesOf(const std::vector<std::string>& labels,
                               const Json& config, const std::string& where) {
  std::vector<int32_t> classes;
  const Json known = config.value("label2id", Json::object());
  for (const std::string& label : labels) {
    const auto found = known.find(label);
    if (found == known.end() || !found->is_number_integer()) {
      throw Error(ErrorCode::kInvalidArgument,
                  {"text", "labels that \"label2id\" of " + where + " has",
                   label, "correct the label after the tab, or config.json"});
    }
    classes.push_back(found->get<int32_t>());
  }
  return classes;
}

void RequireFiles(const TextInput& text, const EvaluateJob& job) {
  if (text.files.empty()) {
    throw Error(ErrorCode::kInvalidArgument,
                {"text", "files of lines text<TAB>label",
                 text.ids.empty() ? "texts themselves" : "token ids",
                 "name files in TextInput::files"});
  }
  if (job.means != nullptr) {
    throw Error(ErrorCode::kInvalidArgument,
                {"means", "none: closed heads of classifiers give 0",
                 "means of " + std::to_string(job.means->size()) + " layers",
                 "leave them out"});
  }
}

LabelledBatches ReadBatches(const Transformer& model, const TextInput& text,
                            const Json& config, const std::string& where) {
  const ModelConfig& shapes = model.state().checkpoint.config();
  LabelledTexts read = ReadLabelled({text.files.begin(), text.files.end()},
                                    Framer(model.tokenizer(), shapes),
                                    JudgedContext(shapes, text.context));
  const std::vector<int32_t> classes = ClassesOf(read.labels, config, where);
  for (LabelledText& one : read.texts) one.label = classes[one.label];
  return LabelledBatches(std::move(read.texts), shapes.causal, false, 1);
}

}  // namespace

LabelEvaluation EvaluateLabels(Transformer& model, const TextInput& text,
                               const EvaluateJob& job) {
  const ModelUse use(model);
  RequireWhole(model, "evaluate");
  RequireFiles(text, job);
  RequireEachOnce(job.closed, "evaluate");
  Context& context = model.context();
  const std::filesystem::path file = model.folder() / "config.json";
  const Json json = ReadJson(file);
  const ModelConfig& config = model.state().checkpoint.config();
  const auto store =
      ParameterStore::Load(model.folder(), {context.device(), model.type()});
  const auto whole = BuildModel(config, store, model.type());
  const LabelledBatches batches = ReadBatches(model, text, json, file.string());
  const Classifier classifier(config, *store, std::ssize(json["label2id"]));
  store->Round(context);
  ClosedHeads closed(*whole, job.closed);
  TableWork work;
  work.stage = "evaluate";
  work.rows = 4;  // losses, whole and closed; what is right, whole and closed
  for (int64_t i = 0; i < batches.size(); ++i) work.ends.push_back(i + 1);
  work.run = [&](size_t i, LossTable& columns, const auto&) {
    const TrainBatch batch = batches.Make(static_cast<int64_t>(i), 1);
    const std::vector<int64_t> lengths = {std::ssize(batch.ids)};
    for (const int way : {0, 1}) {
      const Tensor x = Forward(context, *whole,
                               {.ids = batch.ids,
                                .lengths = lengths,
                                .hooks = way == 1 ? &closed : nullptr});
      HeadTargets targets;
      targets.targets = batch.targets;
      int64_t hits = 0;
      columns[way][0] = classifier.Loss(context, x.view(), targets, {}, &hits);
      columns[2 + way][0] = static_cast<double>(hits);
    }
  };
  const LossTable sums =
      RunKept(model, "evaluate", job, DescribeFiles(text.files),
              std::to_string(text.context) + ", " + ClosedKey(job.closed, {}),
              [&](const PassOptions& pass) { return FillTable(pass, work); });
  const PairedBootstrap bootstrap(std::vector<double>(batches.size(), 1.0),
                                  kLabelReplicates, job.seed);
  return {batches.size(), CompareSums(bootstrap, sums[0], sums[1]),
          CompareShares(bootstrap, sums[2], sums[3])};
}

}  // namespace headwise
