// Runs the analyses of a report through the doors of the library, on one open
// model. Door: include/headwise/report.h.
#include "headwise/report.h"

#include <algorithm>
#include <functional>
#include <string>
#include <utility>

#include "headwise/api/state.h"
#include "headwise/api/text_input.h"
#include "headwise/base/atomic_file.h"
#include "headwise/base/fields.h"
#include "headwise/error.h"
#include "headwise/heads/composition/composition.h"
#include "headwise/profile.h"
#include "headwise/report/head_evidence.h"
#include "headwise/report/html_report.h"
#include "headwise/report/report_json.h"

namespace headwise {
namespace {

constexpr int64_t kShortContext = 256;
constexpr size_t kSampleWindows = 8;  // that top keys are counted in
constexpr size_t kWordsRead = 8;      // whose writing is shown
constexpr int64_t kWordsWritten = 5;

// Keeps the model from telling the same once for each analysis.
class Quiet {
 public:
  explicit Quiet(Transformer::State& state)
      : state_(state), tell_(std::exchange(state.options.on_notice, {})) {}
  ~Quiet() { state_.options.on_notice = std::move(tell_); }
  Quiet(const Quiet&) = delete;
  Quiet& operator=(const Quiet&) = delete;

 private:
  Transformer::State& state_;
  OnNotice tell_;
};

// Runs one part after the other and keeps what they give.
class ReportMaker {
 public:
  ReportMaker(Transformer& model, const TextInput& text, const ReportJob& job)
      : model_(model),
        state_(model.state()),
        text_(text),
        job_(job),
        parts_{.model = model} {
    for (const std::string& file : text.files) {
      parts_.texts.push_back(std::filesystem::path(file).filename().string());
    }
  }

  Json Make() {
    parts_.profile = MakeOrLoadProfile();
    CutText();
    const Quiet quiet(state_);
    if (state_.is_first()) {
      parts_.roles = FindRoles(parts_.profile);
      ConfirmRoles(model_, parts_.roles, JobOf<ConfirmJob>());
    }
    Part(ReportPart::kSimilarity, [&] {
      parts_.similarity =
          CompareHeads(model_, short_text_, JobOf<SimilarityJob>());
    });
    Part(ReportPart::kImportance, [&] { Rank(); });
    if (!state_.is_first()) return nullptr;
    Part(ReportPart::kComposition, [&] { Compose(); });
    Part(ReportPart::kSamples, [&] {
      parts_.samples = SampleHeads(state_.context, state_.model(),
                                   model_.tokenizer(), FirstWindows());
    });
    Part(ReportPart::kContent, [&] {
      parts_.contents = DescribeContents(
          state_.context, state_.model(),
          FrequentWords(model_.tokenizer(), windows_, kWordsRead),
          kWordsWritten);
    });
    return ReportJson(parts_);
  }

 private:
  template <typename Job>
  Job JobOf() const {
    Job job;
    job.on_progress = job_.on_progress;
    job.stop = job_.stop;
    return job;
  }

  Profile MakeOrLoadProfile() const {
    if (!job_.profile) {
      return MakeProfile(model_, text_, JobOf<ProfileJob>());
    }
    Profile profile = Profile::Load(*job_.profile);
    const bool same_heads = profile.heads == HeadsOf(model_);
    if (profile.model_hash == model_.hash() && same_heads) return profile;
    throw Error(
        ErrorCode::kInvalidArgument,
        {job_.profile->string(), "a profile of " + model_.folder().string(),
         "one of " + profile.model + " (" + profile.model_hash + ")" +
             (same_heads ? "" : " with other heads"),
         "profile this model anew"});
  }

  // Runs a part, unless it is to be skipped or needs text that there is not;
  // an analysis that this model cannot have is said to be absent.
  void Part(ReportPart part, const std::function<void()>& run) {
    const std::string name(FieldWord(part));
    if (std::ranges::find(job_.skip, part) != job_.skip.end()) {
      parts_.absent.push_back({name, "It was left out, as was asked."});
      return;
    }
    if (windows_.empty()) {
      parts_.absent.push_back(
          {name, "It needs text, and only a profile was given."});
      return;
    }
    try {
      run();
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kUnsupported &&
          error.code() != ErrorCode::kInvalidArgument) {
        throw;
      }
      parts_.absent.push_back({name, error.what()});
    }
  }

  // The beginning of the text in short windows: intervals of the ranking rest
  // on their number.
  void CutText() {
    if (text_.files.empty()) return;
    if (!model_.has_tokenizer()) {
      throw Error(
          ErrorCode::kNotFound,
          {model_.folder().string(), "a tokenizer to read text with", "none",
           "leave the text out: a profile alone gives the roles"});
    }
    const ModelConfig& config = state_.checkpoint.config();
    short_text_ = text_;
    short_text_.tokens = job_.rank_tokens;
    short_text_.context =
        std::min(kShortContext, ContextOf(config, text_.context));
    windows_ = WindowsOf(model_, short_text_, short_text_.context, 0);
  }

  std::span<const TokenWindow> FirstWindows() const {
    return {windows_.data(), std::min(windows_.size(), kSampleWindows)};
  }

  void Rank() {
    RankJob rank = JobOf<RankJob>();
    rank.by = {Criterion::kAblationMean, Criterion::kAblationZero,
               Criterion::kActivation, Criterion::kWeightsOv};
    rank.profile = &parts_.profile;
    rank.similarity = parts_.similarity ? &*parts_.similarity : nullptr;
    parts_.ranking = RankHeads(model_, short_text_, rank);
  }

  void Compose() {
    parts_.composition = ComposeHeads(model_, JobOf<CompositionJob>());
    if (state_.model().decoder() != nullptr) return;
    MeasureEffects(state_.context, state_.model(), FirstWindows(),
                   JobOf<CompositionJob>(), *parts_.composition);
  }

  Transformer& model_;
  Transformer::State& state_;
  const TextInput& text_;
  const ReportJob& job_;
  TextInput short_text_;
  std::vector<TokenWindow> windows_;
  ReportParts parts_;
};

void Require(const TextInput& text, const ReportJob& job) {
  const auto refuse = [](std::string expected, std::string found,
                         std::string hint) {
    throw Error(
        ErrorCode::kInvalidArgument,
        {"report", std::move(expected), std::move(found), std::move(hint)});
  };
  if (!text.texts.empty() || !text.ids.empty()) {
    refuse("files, which are read more than once", "texts or ids",
           "save them in a file");
  }
  if (text.files.empty() && !job.profile) {
    refuse("a text or a profile", "neither", "");
  }
  if (std::ranges::find(text.files, "-") != text.files.end()) {
    refuse("files or folders of text", "standard input",
           "the text is read more than once: save it in a file");
  }
}

}  // namespace

void Report::Save(const std::filesystem::path& path) const {
  WriteFileAtomically(path, html);
}

Report MakeReport(Transformer& model, const TextInput& text,
                  const ReportJob& job) {
  const ModelUse use(model);
  RequireWhole(model, "report");
  CheckFields(job, "report");
  Require(text, job);
  const Json json = ReportMaker(model, text, job).Make();
  if (!model.state().is_first()) return {};
  return {.html = HtmlReport(json), .json = json.dump(1)};
}

std::string SummaryText(const Report& report, int width, bool color) {
  return SummaryText(ParseJson(report.json, "report"),
                     {.width = width, .color = color});
}

}  // namespace headwise
