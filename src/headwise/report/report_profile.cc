// Reads or makes a report's profile. Door: report_profile.h.
#include "headwise/report/report_profile.h"

#include <fmt/core.h>

#include "headwise/error.h"
#include "headwise/heads/profile/profiler.h"
#include "headwise/tokenizer/text_source.h"

namespace headwise {

Profile ProfileForReport(Context& context, const Checkpoint& checkpoint,
                         const ReportOptions& options) {
  const std::filesystem::path& folder = checkpoint.folder();
  const Model& model = checkpoint.model();
  const std::string& hash = checkpoint.hash();
  if (!options.profile.empty()) {
    Profile profile = Profile::Load(options.profile);
    const bool same_heads = profile.heads == AllHeads(model);
    if (profile.model_hash == hash && same_heads) return profile;
    throw Error(
        ErrorCode::kInvalidArgument,
        {options.profile, "a profile of " + folder.string(),
         fmt::format("one of {} ({}){}", profile.model, profile.model_hash,
                     same_heads ? "" : " with other heads"),
         "profile this model anew"});
  }
  ProfileOptions settings;
  settings.context = options.context;
  settings.tokens = options.tokens;
  settings.group = options.group;
  settings.progress = options.progress;
  settings.stop = options.stop;
  std::filesystem::path name = folder.lexically_normal();
  if (!name.has_filename()) name = name.parent_path();
  Profiler profiler(context, model, checkpoint.FindTokenizer(),
                    name.filename().string(), hash, settings);
  profiler.AddProbes();
  TextSource source(options.texts);
  if (!profiler.AddText(source)) {
    throw Error(ErrorCode::kCancelled,
                {"report", "to read the text to its end", "a stop", ""});
  }
  return profiler.Take();
}

}  // namespace headwise
