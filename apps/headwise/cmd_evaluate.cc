// headwise evaluate: the loss of a model with any heads closed.
#include <fmt/core.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cache_flags.h"
#include "commands.h"
#include "console.h"
#include "evaluate_cache.h"
#include "evaluate_task.h"
#include "headwise/error.h"
#include "headwise/heads/importance/ranking_json.h"
#include "headwise/heads/pruning/evaluate.h"
#include "headwise/heads/pruning/plan.h"
#include "headwise/heads/pruning/profile_means.h"
#include "headwise/report/text.h"
#include "prune_material.h"

namespace headwise {
namespace {

struct Options {
  RunFlags run;
  TextFlags text = {.paths = {}, .tokens = 8192, .context = 0, .reading = {}};
  std::string drop;
  std::string plan;
  std::string replace = "zero";
  std::vector<std::string> mean_text;
  CacheFlags cache;
  uint64_t seed = 0;
};

HeadSet ClosedBy(const Options& options, const Checkpoint& checkpoint) {
  if (options.plan.empty()) {
    return ParseHeads(options.drop, checkpoint.model());
  }
  return ReadPlan(options.plan, checkpoint.model(), checkpoint.hash()).removed;
}

// What stands in for closed heads: nothing, or means over this text, another,
// or that of a profile.
HeadOutputs MeansFor(const Options& options, const PruneMaterial& material,
                     const CorpusOptions& corpus, Context& context) {
  if (options.replace == "zero" && options.mean_text.empty()) return {};
  if (options.mean_text.size() == 1 && IsProfile(options.mean_text[0])) {
    return MeansOf(Profile::Load(options.mean_text[0]), material.model(),
                   material.checkpoint.hash());
  }
  TextFlags text = options.text;
  if (!options.mean_text.empty()) text.paths = options.mean_text;
  const PruneMaterial other = ReadPruneMaterial(options.run, text);
  return MeansOver(context, material.model(), other.examples, corpus);
}

// All that is told of one model.
struct Result {
  Evaluation loss;
  Interval right, closed_right;    // shares of the tokens
  std::optional<Interval> change;  // of that share; none without tokens
  std::optional<BleuPair> bleu;
};

void PrintText(const Result& result, size_t closed) {
  fmt::print("{} loss on {} of {} tokens, 95 % intervals over the sequences\n",
             Name(result.loss.loss_kind),
             Counted(result.loss.sequences, "sequence"), result.loss.tokens);
  const auto print = [&](const char* word, const Interval& loss,
                         const Interval& right, const std::string& bleu,
                         bool sign) {
    fmt::print("{:<7} {}", word, ToText(loss, sign));
    if (result.change) fmt::print("  right {}", ToText(right, sign));
    fmt::print("{}\n", bleu);
  };
  const auto bleu = [](const BleuEstimate& estimate) {
    return fmt::format("  BLEU {:.2f} [{:.2f}, {:.2f}]", estimate.score.score,
                       estimate.low, estimate.high);
  };
  print("whole", result.loss.loss, result.right,
        result.bleu ? bleu(result.bleu->whole) : "", false);
  if (closed == 0) return;
  print("closed", result.loss.closed, result.closed_right,
        result.bleu ? bleu(result.bleu->closed) : "", false);
  print("change", result.loss.change, result.change.value_or(Interval()),
        result.bleu
            ? fmt::format("  BLEU {:+.2f} [{:+.2f}, {:+.2f}]",
                          result.bleu->change.value, result.bleu->change.low,
                          result.bleu->change.high)
            : "",
        true);
  fmt::print("{} closed.\n", Counted(static_cast<int64_t>(closed), "head"));
}

Json ToJson(const Options& options, const Result& result,
            const HeadSet& closed) {
  std::vector<std::string> heads;
  for (const HeadRef& head : closed) heads.push_back(ToString(head));
  Json json = {{"format", "headwise.evaluation/1"},
               {"model", options.run.model},
               {"loss_kind", Name(result.loss.loss_kind)},
               {"sequences", result.loss.sequences},
               {"tokens", result.loss.tokens},
               {"loss", ToJson(result.loss.loss)},
               {"closed_heads", heads},
               {"closed", ToJson(result.loss.closed)},
               {"change", ToJson(result.loss.change)}};
  if (result.change) {
    json["right"] = {{"whole", ToJson(result.right)},
                     {"closed", ToJson(result.closed_right)},
                     {"change", ToJson(*result.change)}};
  }
  if (result.bleu) {
    const auto one = [](double value, double low, double high) {
      return Json({{"value", value}, {"low", low}, {"high", high}});
    };
    const BleuPair& bleu = *result.bleu;
    json["bleu"] = {
        {"whole", one(bleu.whole.score.score, bleu.whole.low, bleu.whole.high)},
        {"closed",
         one(bleu.closed.score.score, bleu.closed.low, bleu.closed.high)},
        {"change", one(bleu.change.value, bleu.change.low, bleu.change.high)}};
  }
  return json;
}

// Classifiers: their own head, their own loss.
int RunClassifier(const Options& options) {
  if (options.replace != "zero" || !options.mean_text.empty()) {
    throw UsageError("classifiers: closed heads give 0, --replace zero");
  }
  const Checkpoint checkpoint(options.run.model);
  const HeadSet closed = ClosedBy(options, checkpoint);
  Context context(options.run.engine.context());
  const AccuracyPair result =
      ScoreLabels(context, options.run, options.text, closed, options.seed);
  if (options.run.json) {
    std::vector<std::string> heads;
    for (const HeadRef& head : closed) heads.push_back(ToString(head));
    const Json json = {{"format", "headwise.evaluation/1"},
                       {"model", options.run.model},
                       {"loss_kind", "class"},
                       {"sequences", result.texts},
                       {"loss", ToJson(result.loss)},
                       {"closed_heads", heads},
                       {"closed", ToJson(result.closed_loss)},
                       {"accuracy",
                        {{"whole", ToJson(result.right)},
                         {"closed", ToJson(result.closed_right)},
                         {"change", ToJson(result.change)}}}};
    fmt::print("{}\n", json.dump(2));
    return kSucceeded;
  }
  fmt::print("class loss and accuracy on {}\n", Counted(result.texts, "text"));
  fmt::print("whole   {}  accuracy {}\n", ToText(result.loss),
             ToText(result.right));
  if (closed.empty()) return kSucceeded;
  fmt::print("closed  {}  accuracy {}  ({})\n", ToText(result.closed_loss),
             ToText(result.closed_right),
             Counted(static_cast<int64_t>(closed.size()), "head"));
  fmt::print("change of the accuracy {}\n", ToText(result.change, true));
  return kSucceeded;
}

Result Measure(const PruneMaterial& material, const HeadSet& closed,
               const HeadOutputs* means, const CorpusOptions& corpus,
               Context& context) {
  const JudgedText text(context, material.model(), material.examples, corpus);
  Result result;
  result.loss = closed.empty()
                    ? text.OfWhole()
                    : text.Compared(text.Closed({&closed, 1}, means)[0]);
  std::vector<double> right = text.Right({}, nullptr);
  if (!right.empty()) {
    const std::vector<double> other =
        closed.empty() ? right : text.Right(closed, means);
    result.right = text.Share(right);
    result.closed_right = text.Share(other);
    for (size_t i = 0; i < right.size(); ++i) right[i] = other[i] - right[i];
    result.change = text.Share(right);
  }
  if (material.checkpoint.config().encoder_decoder()) {
    result.bleu = ScoreTranslations(context, material, closed, means);
  }
  return result;
}

// Heads keep parts of the text, and none is closed.
int RunCache(const Options& options) {
  if (!options.drop.empty() || !options.plan.empty()) {
    throw UsageError("--kv-policy: no head is closed beside it");
  }
  if (IsClassifier(options.run.model)) {
    throw UsageError("--kv-policy: classifiers keep no text");
  }
  const PruneMaterial material = ReadPruneMaterial(options.run, options.text);
  const auto choice = ChooseCache(options.cache, options.run.engine,
                                  options.run.model, material.checkpoint);
  Context context(options.run.engine.context());
  ProgressBar bar;
  const CacheEvaluation result =
      EvaluateCache(context, material, choice->policy,
                    CorpusOptionsFor(material, bar, options.seed));
  PrintEvaluation(result, *choice, options.run, material.checkpoint.hash());
  return kSucceeded;
}

int Run(const Options& options) {
  options.run.engine.Require();
  if (!options.drop.empty() && !options.plan.empty()) {
    throw UsageError("expected either --drop or --plan");
  }
  if (options.replace != "zero" && options.replace != "mean") {
    throw UsageError("--replace: expected zero or mean; found " +
                     options.replace);
  }
  RequireCacheFlags(options.cache, options.run.engine);
  if (options.cache.policy != "all") return RunCache(options);
  if (IsClassifier(options.run.model)) return RunClassifier(options);
  const PruneMaterial material = ReadPruneMaterial(options.run, options.text);
  const HeadSet closed = ClosedBy(options, material.checkpoint);
  Context context(options.run.engine.context());
  ProgressBar bar;
  const CorpusOptions corpus = CorpusOptionsFor(material, bar, options.seed);
  const HeadOutputs means = MeansFor(options, material, corpus, context);
  const Result result = Measure(
      material, closed, means.empty() ? nullptr : &means, corpus, context);
  if (options.run.json) {
    fmt::print("{}\n", ToJson(options, result, closed).dump(2));
  } else {
    PrintText(result, closed.size());
  }
  return kSucceeded;
}

std::function<int()> Setup(CommandLine line) {
  auto options = std::make_shared<Options>();
  AddRunFlags(line, options->run, "A model's folder");
  AddTextFlags(line, options->text,
               "Stop after so many tokens, at the end of a window; 0: all",
               "Tokens of a window; 0: 256 or what the model knows")
      .Required();
  line.Option("--drop", options->drop,
              "Heads to close: 5.1,6.0 (layer.head, from 0); cross:5.1 and "
              "decoder:5.1 in encoder–decoders");
  line.Option("--plan", options->plan, "The heads of a plan that prune wrote");
  line.Option("--replace", options->replace,
              "What stands in for closed heads: zero, or mean (over this "
              "text)")
      .ShowDefault();
  line.Option("--mean", options->mean_text,
              "Means over these texts, or those of a profile (profile "
              "--means), stand in for closed heads")
      .Several();
  AddCacheFlags(line, options->cache);
  line.Option("--seed", options->seed, "Of masks and intervals").ShowDefault();
  return [options] { return Run(*options); };
}

}  // namespace

const Command kEvaluateCommand = {
    .name = "evaluate",
    .group = Group::kPrune,
    .summary = "The loss of a model on a text, with any heads closed",
    .examples =
        "  headwise evaluate models/minimind2-small --text held-out.txt\n"
        "  headwise evaluate models/gpt2 --text wiki.txt --drop 5.1,6.0\n"
        "  headwise evaluate models/gpt2 --text wiki.txt --plan plan.json "
        "--replace mean\n"
        "  headwise evaluate models/gpt2 --text wiki.txt --kv-policy roles",
    .setup = Setup};

}  // namespace headwise
