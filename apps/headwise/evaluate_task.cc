// Door: evaluate_task.h.
#include "evaluate_task.h"

#include <filesystem>

#include "headwise/base/json.h"
#include "headwise/base/stop.h"
#include "headwise/error.h"
#include "headwise/model/family.h"
#include "headwise/model/parameters.h"
#include "headwise/runtime/gates.h"
#include "headwise/runtime/generate.h"
#include "headwise/runtime/session.h"
#include "headwise/tensor/slice.h"
#include "headwise/train/classifier.h"
#include "headwise/train/pair_batches.h"
#include "interrupt.h"
#include "past_context.h"

namespace headwise {
namespace {

constexpr int64_t kReplicates = 2000;

// Closed heads give their means.
class MeanHeads : public ClosedHeads {
 public:
  MeanHeads(const Model& model, const HeadSet& closed, const HeadOutputs* means)
      : ClosedHeads(model, closed), means_(means) {}
  void BeforeAttention(const AttentionSite& site,
                       const AttentionProblem& problem,
                       AttentionArgs& args) override {
    ClosedHeads::BeforeAttention(site, problem, args);
    if (!args.gates || means_ == nullptr) return;
    const auto found = means_->find(site.name);
    if (found == means_->end()) return;
    const ConstTensorView mean = found->second.view();
    args.replacement = Broadcast(
        mean, {args.q.shape[0], args.q.shape[1], mean.shape[1], mean.shape[2]});
  }

 private:
  const HeadOutputs* means_;
};

std::vector<BleuCounts> Translate(Context& context,
                                  const PruneMaterial& material,
                                  RunHooks* hooks) {
  const Tokenizer& tokenizer = material.checkpoint.tokenizer();
  std::vector<BleuCounts> counts;
  for (size_t i = 0; i < material.examples.size(); ++i) {
    ThrowIfStopped(StopOnInterrupt(), "translate");
    const std::vector<int32_t>& source = material.examples[i].ids;
    GenerateOptions options;
    // As transformers' models rarely go beyond; a loop of words must end.
    options.max_tokens = 2 * std::ssize(source) + 16;
    options.hooks = hooks;
    const std::vector<int32_t> ids =
        Generate(context, material.model(), source, options);
    counts.push_back(CountBleu(tokenizer.Decode(ids), material.references[i]));
  }
  return counts;
}

// Classes by the numbers that the model has for their names.
std::vector<int32_t> ClassesOf(const std::vector<std::string>& labels,
                               const Json& config, const std::string& where) {
  std::vector<int32_t> classes;
  const Json known = config.value("label2id", Json::object());
  for (const std::string& label : labels) {
    const auto found = known.find(label);
    if (found == known.end() || !found->is_number_integer()) {
      throw Error(
          ErrorCode::kInvalidArgument,
          {"text", "labels that \"label2id\" of " + where + " has", label, ""});
    }
    classes.push_back(found->get<int32_t>());
  }
  return classes;
}

}  // namespace

BleuPair ScoreTranslations(Context& context, const PruneMaterial& material,
                           const HeadSet& closed, const HeadOutputs* means) {
  BleuPair pair;
  const std::vector<BleuCounts> whole = Translate(context, material, nullptr);
  pair.whole = pair.closed = EstimateBleu(whole);
  if (closed.empty()) return pair;
  MeanHeads hooks(material.model(), closed, means);
  const std::vector<BleuCounts> other = Translate(context, material, &hooks);
  pair.closed = EstimateBleu(other);
  pair.change = CompareBleu(other, whole);
  return pair;
}

bool IsClassifier(const std::string& folder) {
  const std::filesystem::path file =
      std::filesystem::path(folder) / "config.json";
  std::error_code ignored;
  if (!std::filesystem::exists(file, ignored)) return false;
  const Json json = ReadJson(file);
  if (!json.is_object() || !json.contains("architectures") ||
      !json["architectures"].is_array()) {
    return false;
  }
  for (const Json& name : json["architectures"]) {
    if (name.is_string() &&
        name.get<std::string>().ends_with("ForSequenceClassification")) {
      return true;
    }
  }
  return false;
}

AccuracyPair ScoreLabels(Context& context, const RunFlags& run,
                         const TextFlags& text, const HeadSet& closed,
                         uint64_t seed) {
  const std::filesystem::path file =
      std::filesystem::path(run.model) / "config.json";
  const Json json = ReadJson(file);
  const ModelConfig config = ReadConfig(json, file.string());
  const DType type = run.engine.compute();
  const auto store = ParameterStore::Load(run.model, {context.device(), type});
  const auto model = BuildModel(config, store, type);
  const auto tokenizer = Tokenizer::Load(run.model, text.reading.options());
  const std::vector<std::filesystem::path> files(text.paths.begin(),
                                                 text.paths.end());
  LabelledTexts read = ReadLabelled(files, Framer(*tokenizer, config),
                                    ShortContext(config, text.context));
  const std::vector<int32_t> classes =
      ClassesOf(read.labels, json, file.string());
  for (LabelledText& one : read.texts) one.label = classes[one.label];
  const Classifier classifier(config, *store, std::ssize(json["label2id"]));
  store->Round(context);
  const LabelledBatches batches(std::move(read.texts), config.causal, false, 1);
  ClosedHeads hooks(*model, closed);
  const std::vector<double> weights(batches.size(), 1.0);
  std::vector<double> loss[2], right[2], change;
  for (int64_t i = 0; i < batches.size(); ++i) {
    ThrowIfStopped(StopOnInterrupt(), "evaluate");
    const TrainBatch batch = batches.Make(i, 1);
    const std::vector<int64_t> lengths = {std::ssize(batch.ids)};
    for (const int way : {0, 1}) {
      const Tensor x = Forward(context, *model,
                               {.ids = batch.ids,
                                .lengths = lengths,
                                .hooks = way == 1 ? &hooks : nullptr});
      HeadTargets targets;
      targets.targets = batch.targets;
      int64_t hits = 0;
      loss[way].push_back(
          classifier.Loss(context, x.view(), targets, {}, &hits));
      right[way].push_back(static_cast<double>(hits));
    }
    change.push_back(right[1].back() - right[0].back());
  }
  const PairedBootstrap bootstrap(weights, kReplicates, seed);
  return {batches.size(),
          bootstrap.Ratio(loss[0]),
          bootstrap.Ratio(loss[1]),
          bootstrap.Ratio(right[0]),
          bootstrap.Ratio(right[1]),
          bootstrap.Ratio(change)};
}

}  // namespace headwise
