// headwise rank: which heads matter, which do not, and which hurt.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "commands.h"
#include "console.h"
#include "headwise/error.h"
#include "headwise/heads/importance/examples.h"
#include "headwise/heads/importance/ranking.h"
#include "headwise/heads/importance/ranking_json.h"
#include "headwise/heads/roles/roles.h"
#include "headwise/heads/similarity/similarity.h"
#include "headwise/model/checkpoint.h"
#include "headwise/model/model_hash.h"
#include "headwise/report/terminal.h"
#include "interrupt.h"
#include "past_context.h"
#include "progress_bar.h"
#include "run_flags.h"

namespace headwise {
namespace {

struct Options {
  RunFlags run;
  TextFlags text = {.paths = {}, .tokens = 8192, .context = 0, .reading = {}};
  std::string profile;
  std::vector<std::string> by = {"ablation-mean", "activation", "weights"};
  int64_t top = 20;
  double least_hurt = kNegligibleShare;
  bool pairs = false;
  bool repair = false;
  bool per_layer = false;
  uint64_t seed = 0;
};

// Short windows, since intervals rest on the number of sequences.
constexpr int64_t kRankContext = 256;
constexpr size_t kTwinWindows = 4;

std::string Signed(double value) {
  return std::isfinite(value) ? fmt::format("{:+.4f}", value) : "?";
}

// ".0593", "-.0021", "1.2340": as many digits as the value beside it.
std::string Bare(double value) {
  if (!std::isfinite(value)) return "?";
  std::string text = fmt::format("{:.4f}", value);
  const size_t digit = text[0] == '-' ? 1 : 0;
  if (text[digit] == '0') text.erase(digit, 1);
  return text;
}

std::string Range(const Interval& interval) {
  return Bare(interval.low) + "…" + Bare(interval.high);
}

// Names for columns: the criterion's own are in --help and the JSON.
const char* Column(Criterion criterion) {
  switch (criterion) {
    case Criterion::kAblationZero:
      return "Δ zero";
    case Criterion::kAblationMean:
      return "Δ mean";
    case Criterion::kAblationResample:
      return "Δ other";
    case Criterion::kActivation:
      return "activ.";
    case Criterion::kWeightsOv:
      return "‖OV‖";
    case Criterion::kWeightsQk:
      return "‖QK‖";
    case Criterion::kGradient:
      return "grad";
    case Criterion::kGradientToken:
      return "grad/tok";
    case Criterion::kGradientBatch:
      return "grad/all";
  }
  return "?";
}

// Heads by the primary criterion, or by the first one.
std::vector<size_t> Order(const Ranking& ranking) {
  const size_t by = ranking.primary.value_or(0);
  std::vector<size_t> order(ranking.heads.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const auto& heads = ranking.criteria[by].heads;
    return heads[a].value > heads[b].value;
  });
  return order;
}

StudyTable HeadTable(const Ranking& ranking, size_t top) {
  StudyTable table;
  table.columns = {"head"};
  if (!ranking.classes.empty()) table.columns.emplace_back("class");
  for (size_t c = 0; c < ranking.criteria.size(); ++c) {
    table.columns.emplace_back(Column(ranking.criteria[c].criterion));
    if (ranking.primary == c) table.columns.emplace_back("95 %");
  }
  if (!ranking.self_repair.empty()) table.columns.emplace_back("repair");
  const std::vector<size_t> order = Order(ranking);
  for (size_t place = 0; place < std::min(top, order.size()); ++place) {
    const size_t head = order[place];
    std::vector<std::string> row = {ToString(ranking.heads[head])};
    if (!ranking.classes.empty()) {
      row.emplace_back(Name(ranking.classes[head]));
    }
    for (size_t c = 0; c < ranking.criteria.size(); ++c) {
      const CriterionResult& result = ranking.criteria[c];
      const Interval& value = result.heads[head];
      row.push_back(IsAblation(result.criterion)
                        ? Signed(value.value)
                        : fmt::format("{:.3g}", value.value));
      if (ranking.primary == c) row.push_back(Range(value));
    }
    if (!ranking.self_repair.empty()) {
      const double repair = ranking.self_repair[head];
      row.push_back(std::isnan(repair) ? "–" : fmt::format("{:+.2f}", repair));
    }
    table.rows.push_back(std::move(row));
  }
  const size_t shown = table.rows.size();
  table.title = shown < order.size()
                    ? fmt::format("The {} most important of {} heads", shown,
                                  order.size())
                    : "Heads by importance";
  return table;
}

StudyTable NegativeTable(const Ranking& ranking) {
  StudyTable table;
  table.title = fmt::format(
      "Heads that hurt: closing them lowers the loss by more than {:.4f}; "
      "chosen on one half of the text, confirmed on the other",
      ranking.least_negative);
  table.columns = {"head", "Δloss, chosen", "Δloss, confirmed", "95 %"};
  for (const NegativeHead& head : ranking.negative) {
    table.rows.push_back(
        {ToString(ranking.heads[head.head]), Signed(head.selection.value),
         Signed(head.confirmation.value), Range(head.confirmation)});
  }
  return table;
}

StudyTable LayerTable(const Ranking& ranking) {
  StudyTable table;
  table.title = "Whole layers closed";
  table.columns = {"layer", "Δloss", "95 %"};
  for (const LayerImportance& layer : ranking.layers) {
    const std::string name =
        layer.kind == AttentionKind::kSelf
            ? std::to_string(layer.layer)
            : fmt::format("{}:{}", Name(layer.kind), layer.layer);
    table.rows.push_back({name, Signed(layer.delta.value), Range(layer.delta)});
  }
  return table;
}

StudyTable CriterionTable(const Ranking& ranking) {
  StudyTable table;
  table.title = "Criteria: how uneven, and how their ranks agree (Spearman)";
  table.columns = {"criterion", "Gini", "effective"};
  for (const CriterionResult& result : ranking.criteria) {
    table.columns.emplace_back(Column(result.criterion));
  }
  for (size_t a = 0; a < ranking.criteria.size(); ++a) {
    const CriterionResult& result = ranking.criteria[a];
    std::vector<std::string> row = {Column(result.criterion),
                                    fmt::format("{:.2f}", result.gini),
                                    fmt::format("{:.1f}", result.effective)};
    for (size_t b = 0; b < ranking.criteria.size(); ++b) {
      std::string cell = "1";
      for (const RankCorrelation& pair : ranking.correlations) {
        if (std::minmax(a, b) == std::minmax(pair.a, pair.b)) {
          cell = fmt::format("{:.2f}", pair.spearman);
        }
      }
      row.push_back(std::move(cell));
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

// The pairs that cost most beyond what their heads cost alone.
StudyTable PairTable(const Ranking& ranking, size_t top) {
  StudyTable table;
  table.title = "Pairs that cost more together than apart";
  table.columns = {"pair", "Δloss", "beyond the sum", "95 %"};
  std::vector<PairEffect> pairs;
  for (const PairEffect& pair : ranking.pairs) {
    if (pair.interaction.low > 0) pairs.push_back(pair);
  }
  std::sort(pairs.begin(), pairs.end(),
            [](const PairEffect& a, const PairEffect& b) {
              return a.interaction.value > b.interaction.value;
            });
  pairs.resize(std::min(pairs.size(), top));
  for (const PairEffect& pair : pairs) {
    table.rows.push_back({ToString(ranking.heads[pair.a]) + " + " +
                              ToString(ranking.heads[pair.b]),
                          Signed(pair.delta.value),
                          Signed(pair.interaction.value),
                          Range(pair.interaction)});
  }
  return table;
}

void Print(const StudyTable& table, const Console& console) {
  fmt::print("\n{}{}", Wrap(table.title, console.width),
             DrawTable(table, console));
}

void PrintText(const Options& options, const Ranking& ranking) {
  const Console console = StdoutConsole();
  fmt::print("{}", Wrap(fmt::format("Loss: {} ({}), {:.4f} over {} in {}.",
                                    Name(ranking.loss_kind),
                                    Describe(ranking.loss_kind), ranking.loss,
                                    Counted(ranking.tokens, "token"),
                                    Counted(ranking.sequences, "sequence")),
                        console.width));
  if (ranking.gradient_loss && *ranking.gradient_loss != ranking.loss_kind) {
    fmt::print("{}", Wrap(fmt::format("Gradients are of another loss: {} ({}).",
                                      Name(*ranking.gradient_loss),
                                      Describe(*ranking.gradient_loss)),
                          console.width));
  }
  const size_t top =
      options.top > 0 ? static_cast<size_t>(options.top) : ranking.heads.size();
  Print(HeadTable(ranking, top), console);
  if (!ranking.negative.empty()) Print(NegativeTable(ranking), console);
  if (options.pairs) Print(PairTable(ranking, top), console);
  if (!ranking.layers.empty()) Print(LayerTable(ranking), console);
  Print(CriterionTable(ranking), console);
  fmt::print("\n");
  if (ranking.primary) {
    fmt::print("{}", Wrap(Summary(ranking), console.width));
  }
  for (const std::string& note : ranking.notes) {
    fmt::print("{}", Wrap(fmt::format("Not told: {}.", note), console.width));
  }
}

// Heads with the pattern of another, on the first windows: a few hundred rows
// tell. Absent where the texts are too short to compare patterns on.
std::optional<std::set<HeadRef>> Twins(Context& context, const Model& model,
                                       std::span<const TokenWindow> windows,
                                       const RankOptions& rank) {
  SimilarityOptions options;
  options.progress = rank.progress;
  options.stop = rank.stop;
  const auto first = windows.first(std::min(windows.size(), kTwinWindows));
  Similarity similarity;
  try {
    similarity = CompareHeads(context, model, first, options);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kInvalidArgument) throw;
    return {};
  }
  std::set<HeadRef> twins;
  for (const HeadPair& pair : similarity.twins) {
    twins.insert(similarity.heads[pair.a]);
    twins.insert(similarity.heads[pair.b]);
  }
  return twins;
}

// Heads with a role, by a profile of this very model.
std::set<HeadRef> HeadsWithRoles(const Options& options) {
  const Profile profile = Profile::Load(options.profile);
  if (profile.model_hash !=
      ModelHash(std::filesystem::path(options.run.model))) {
    throw Error(ErrorCode::kInvalidArgument,
                {options.profile, "a profile of " + options.run.model,
                 "one of another model, " + profile.model, ""});
  }
  std::set<HeadRef> heads;
  for (const HeadRoles& head : AssignRoles(profile)) {
    if (!head.roles.empty()) heads.insert(head.head);
  }
  return heads;
}

int Run(const Options& options) {
  RankOptions rank;
  rank.criteria = ParseCriteria(options.by);
  rank.pairs = options.pairs;
  rank.least_negative = options.least_hurt;
  rank.self_repair = options.repair;
  rank.normalise_layers = options.per_layer;
  rank.seed = options.seed;
  rank.stop = StopOnInterrupt();
  const auto model = OpenModel(options.run.model);
  const auto tokenizer =
      Tokenizer::Load(options.run.model, options.text.reading.options());
  const int64_t context = options.text.context > 0
                              ? options.text.context
                              : std::min(kRankContext, model->config().context);
  const WindowCutter cutter(*tokenizer, model->config(), {context});
  const std::vector<TokenWindow> windows =
      ReadWindows(options.text.paths, cutter, options.text.tokens);
  WarnPastContext(model->config(), Longest(windows));
  WarnUnknownScript(*tokenizer, windows);
  rank.objective = ObjectiveFor(*tokenizer);
  rank.objective.seed = options.seed;
  std::set<HeadRef> with_role;
  if (!options.profile.empty()) {
    with_role = HeadsWithRoles(options);
    rank.has_role = [&](const HeadRef& head) {
      return with_role.contains(head);
    };
  }
  Context machine({.threads = options.run.threads, .implementations = ""});
  Ranking ranking;
  {
    ProgressBar bar;
    rank.progress = bar.callback();
    const auto twins = Twins(machine, *model, windows, rank);
    if (twins) {
      rank.has_twin = [&](const HeadRef& head) {
        return twins->contains(head);
      };
    }
    ranking = RankHeads(machine, *model, ExamplesOf(windows), rank);
  }
  if (options.run.json) {
    Json json = {{"model", options.run.model}};
    json.update(ToJson(ranking));
    fmt::print("{}\n", json.dump(2));
  } else {
    PrintText(options, ranking);
  }
  return kSucceeded;
}

std::function<int()> Setup(CommandLine line) {
  auto options = std::make_shared<Options>();
  AddRunFlags(line, options->run);
  AddTextFlags(line, options->text,
               "Stop after so many tokens, at the end of a window; 0: all",
               "Tokens of a window; 0: 256 or what the model knows")
      .Required();
  line.Option("--by", options->by,
              "ablation-zero, ablation-mean, ablation-resample, activation, "
              "weights, gradient (also -token, -batch); the first ablation "
              "gives classes")
      .Commas()
      .ShowDefault();
  line.Option("--profile", options->profile,
              "The model's profile: tells heads without a role (noise)");
  line.Option("--top", options->top, "Heads to print; 0: all")
      .ShowDefault()
      .NotNegative();
  line.Option("--least-hurt", options->least_hurt,
              "A head hurts when closing it lowers the loss by more than "
              "this share of it, on both halves of the text. 0: by "
              "anything that is no accident")
      .Between(0.0, 1.0)
      .ShowDefault();
  line.Flag("--pairs", options->pairs,
            "Also close the top 24 heads in pairs: backup heads");
  line.Flag("--repair", options->repair,
            "Also measure self-repair: 1 − Δ(total)/Δ(direct)");
  line.Flag("--per-layer", options->per_layer,
            "Divide gradients by the L2 norm of their layer's");
  line.Option("--seed", options->seed, "Of masks, resampling, intervals")
      .ShowDefault();
  return [options] { return Run(*options); };
}

}  // namespace

const Command kRankCommand = {
    .name = "rank",
    .group = Group::kAnalyse,
    .summary = "Which heads matter, which do not, which hurt",
    .examples =
        "  headwise rank models/minimind2-small --text novels/\n"
        "  headwise rank models/minilm-l6 --text a.txt b.txt.gz \\\n"
        "      --by ablation-zero,ablation-mean,ablation-resample --top 0\n"
        "  headwise rank models/gpt2 --text wiki.txt --pairs --repair --json\n"
        "Each model is judged by its own loss, whose name is printed.",
    .setup = Setup};

}  // namespace headwise
