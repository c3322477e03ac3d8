// Work on a text that a model's ranks share, and that is kept while it runs
// (PartialWork), for the files of this folder.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "headwise/api/state.h"
#include "headwise/base/fields.h"
#include "headwise/error.h"
#include "headwise/head_edit.h"
#include "headwise/model.h"
#include "headwise/progress.h"
#include "headwise/runtime/text_pass.h"

namespace headwise {

// Options of a job's passes, nothing kept.
template <typename Job>
PassOptions PassOf(Transformer& model, const Job& job) {
  PassOptions options;
  options.group = model.state().group;
  options.progress = job.on_progress;
  options.stop = job.stop;
  return options;
}

// The fields of a job that its numbers depend on.
template <typename Job>
std::string SettingsOf(const Job& job) {
  Json fields = FieldsToJson(job);
  for (const std::string& name : FieldNames<PartialWork>()) fields.erase(name);
  return fields.dump();
}

// Where the first rank keeps its work, if that is asked for. where: the work,
// for messages; text, settings: as KeptKey. Throws as KeptWork does, and
// Error(kInvalidArgument) where no file is named to go on with.
std::optional<KeptWork> KeptFor(Transformer& model, const char* where,
                                const PartialWork& partial, std::string text,
                                std::string settings);

// The result of `work`, which is called with the PassOptions of the job. What
// was kept leaves when that is whole; when it is stopped the error says where
// it lies. text: as KeptKey; more: settings that are no fields of the job.
template <typename Job, typename Work>
auto RunKept(Transformer& model, const char* where, const Job& job,
             const std::string& text, const std::string& more,
             const Work& work) {
  std::optional<KeptWork> kept =
      KeptFor(model, where, job.partial, text, SettingsOf(job) + more);
  PassOptions options = PassOf(model, job);
  if (kept) options.kept = &*kept;
  try {
    auto result = work(options);
    if (kept) kept->Finish();
    return result;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kCancelled || !kept) throw;
    kept->ThrowInterrupted();
  }
}

// "5.1 6.0 ", and a hash of what stands in for them: a part of settings.
std::string ClosedKey(std::span<const HeadRef> closed, const HeadMeans& means);

}  // namespace headwise
