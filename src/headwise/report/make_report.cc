// Runs the analyses of a report, each on as much text as it needs. Door:
// make_report.h.
#include "headwise/report/make_report.h"

#include <algorithm>
#include <functional>
#include <optional>

#include "headwise/base/nearest.h"
#include "headwise/error.h"
#include "headwise/heads/importance/examples.h"
#include "headwise/heads/roles/confirm.h"
#include "headwise/model/checkpoint.h"
#include "headwise/report/report_json.h"
#include "headwise/report/report_profile.h"

namespace headwise {
namespace {

// Short windows, since intervals of the ranking rest on their number.
constexpr int64_t kRankContext = 256;
constexpr size_t kSampleWindows = 8;  // that top keys are counted in
constexpr size_t kWordsRead = 8;      // whose writing is shown
constexpr int64_t kWordsWritten = 5;

const std::vector<std::string>& Parts() {
  static const std::vector<std::string> parts = {
      "importance", "similarity", "composition", "content", "samples"};
  return parts;
}

// Everything that a report is made of, while it is made.
class ReportMaker {
 public:
  ReportMaker(Context& context, const std::filesystem::path& folder,
              const ReportOptions& options)
      : context_(context),
        options_(options),
        checkpoint_(folder, options.tokenizer, options.type),
        summary_(Summarise(checkpoint_)),
        model_(checkpoint_.model()),
        tokenizer_(checkpoint_.FindTokenizer()) {}

  Json Make() {
    profile_ = ProfileForReport(context_, checkpoint_, options_);
    CutText();
    if (options_.group != nullptr && !options_.group->is_first()) {
      Part("similarity", [&] { Compare(); });
      Part("importance", [&] { Rank(); });
      return nullptr;
    }
    roles_ = AssignRoles(profile_);
    ConfirmJob confirm;
    confirm.on_progress = Told();
    confirm.stop = options_.stop;
    ConfirmRoles(context_, model_, tokenizer_, roles_, confirm);
    Part("similarity", [&] { Compare(); });
    Part("importance", [&] { Rank(); });
    Part("composition", [&] { Compose(); });
    Part("samples", [&] {
      samples_ = SampleHeads(context_, model_, *tokenizer_, First(windows_));
    });
    Part("content", [&] {
      contents_ = DescribeContents(
          context_, model_, FrequentWords(*tokenizer_, windows_, kWordsRead),
          kWordsWritten);
    });
    return ReportJson(Assembled());
  }

 private:
  // Runs a part, unless it is to be skipped or needs text that there is not;
  // an analysis that this model cannot have is said to be absent.
  void Part(const std::string& name, const std::function<void()>& run) {
    if (std::find(options_.skip.begin(), options_.skip.end(), name) !=
        options_.skip.end()) {
      absent_.push_back({name, "It was left out, as was asked."});
      return;
    }
    if (windows_.empty()) {
      absent_.push_back({name, "It needs text, and only a profile was given."});
      return;
    }
    try {
      run();
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kUnsupported &&
          error.code() != ErrorCode::kInvalidArgument) {
        throw;
      }
      absent_.push_back({name, error.what()});
    }
  }

  // The beginning of the text in short windows.
  void CutText() {
    if (options_.texts.empty()) return;
    if (tokenizer_ == nullptr) {
      throw Error(
          ErrorCode::kNotFound,
          {checkpoint_.folder().string(), "a tokenizer to read text with",
           "none", "leave the text out: a profile alone gives the roles"});
    }
    const int64_t context =
        std::min(kRankContext, ContextOf(model_.config(), options_.context));
    const WindowCutter cutter(*tokenizer_, model_.config(), {context});
    windows_ = ReadWindows(options_.texts, cutter, options_.rank_tokens);
  }

  static std::span<const TokenWindow> First(
      const std::vector<TokenWindow>& windows) {
    return {windows.data(), std::min(windows.size(), kSampleWindows)};
  }

  void Compare() {
    similarity_ = CompareHeads(context_, model_, windows_, {}, Pass());
  }

  PassOptions Pass() const {
    return {.group = options_.group,
            .progress = options_.progress,
            .stop = options_.stop};
  }

  void Rank() {
    RankOptions rank;
    rank.criteria = {Criterion::kAblationMean, Criterion::kAblationZero,
                     Criterion::kActivation, Criterion::kWeightsOv};
    rank.objective = ObjectiveFor(*tokenizer_);
    rank.pass = Pass();
    std::vector<HeadRef> with_role, with_twin;
    const auto holds = [](const std::vector<HeadRef>& heads,
                          const HeadRef& head) {
      return std::find(heads.begin(), heads.end(), head) != heads.end();
    };
    for (const HeadRoles& head : roles_) {
      if (!head.roles.empty()) with_role.push_back(head.head);
    }
    rank.has_role = [&](const HeadRef& head) { return holds(with_role, head); };
    if (similarity_) {
      for (const HeadPair& pair : similarity_->twins) {
        with_twin.push_back(similarity_->heads[pair.a]);
        with_twin.push_back(similarity_->heads[pair.b]);
      }
      rank.has_twin = [&](const HeadRef& head) {
        return holds(with_twin, head);
      };
    }
    ranking_ = RankHeads(context_, model_, ExamplesOf(windows_), rank);
  }

  void Compose() {
    CompositionJob composition;
    composition.on_progress = Told();
    composition.stop = options_.stop;
    composition_ = MeasureComposition(context_, model_, composition);
    if (model_.decoder() == nullptr) {
      MeasureEffects(context_, model_, First(windows_), composition,
                     *composition_);
    }
  }

  OnProgress Told() const {
    if (!options_.progress) return {};
    return [tell = options_.progress](std::string_view stage, double done,
                                      double total) {
      tell({std::string(stage), done, total, ""});
    };
  }

  ReportParts Assembled() {
    ReportParts parts;
    parts.model = &model_;
    parts.tokenizer = tokenizer_;
    parts.profile = &profile_;
    parts.summary = &summary_;
    for (const std::string& text : options_.texts) {
      parts.texts.push_back(std::filesystem::path(text).filename().string());
    }
    parts.roles = &roles_;
    parts.ranking = ranking_ ? &*ranking_ : nullptr;
    parts.similarity = similarity_ ? &*similarity_ : nullptr;
    parts.composition = composition_ ? &*composition_ : nullptr;
    parts.samples = samples_ ? &*samples_ : nullptr;
    parts.contents = contents_ ? &*contents_ : nullptr;
    parts.absent = std::move(absent_);
    return parts;
  }

  Context& context_;
  const ReportOptions& options_;
  Checkpoint checkpoint_;
  ModelSummary summary_;
  const Model& model_;
  const Tokenizer* tokenizer_;  // may have none
  Profile profile_;
  std::vector<TokenWindow> windows_;
  std::vector<HeadRoles> roles_;
  std::optional<Ranking> ranking_;
  std::optional<Similarity> similarity_;
  std::optional<Composition> composition_;
  std::optional<HeadSamples> samples_;
  std::optional<HeadContents> contents_;
  std::vector<ReportParts::Absent> absent_;
};

}  // namespace

Json MakeReport(Context& context, const std::filesystem::path& model,
                const ReportOptions& options) {
  if (options.texts.empty() && options.profile.empty()) {
    throw Error(ErrorCode::kInvalidArgument,
                {"report", "a text or a profile", "neither", ""});
  }
  if (std::find(options.texts.begin(), options.texts.end(), "-") !=
      options.texts.end()) {
    throw Error(ErrorCode::kInvalidArgument,
                {"report", "files or folders of text", "standard input",
                 "the text is read more than once: save it in a file"});
  }
  for (const std::string& part : options.skip) {
    if (std::find(Parts().begin(), Parts().end(), part) != Parts().end()) {
      continue;
    }
    throw Error(ErrorCode::kInvalidArgument,
                {"report", "a part of the report to skip", "\"" + part + "\"",
                 "did you mean " + Nearest(part, Parts()) + "?"});
  }
  return ReportMaker(context, model, options).Make();
}

}  // namespace headwise
