// Reports. Door: include/headwise/report.h.
#include "headwise/report.h"

#include <algorithm>

#include "headwise/api/notices.h"
#include "headwise/api/state.h"
#include "headwise/base/atomic_file.h"
#include "headwise/base/fields.h"
#include "headwise/error.h"
#include "headwise/model.h"
#include "headwise/report/html_report.h"
#include "headwise/report/make_report.h"
#include "headwise/text_input.h"

namespace headwise {
namespace {

// Standard input cannot be read twice, and is refused later.
void TellOfFiles(const Transformer& model, const TextInput& text) {
  TellPastContext(model, text.context);
  if (text.files.empty() ||
      std::ranges::find(text.files, "-") != text.files.end()) {
    return;
  }
  TextSource source(text.files);
  TellUnknownScript(model, source);
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
  if (!text.texts.empty() || !text.ids.empty()) {
    throw Error(
        ErrorCode::kInvalidArgument,
        {"text", "files, which are read more than once", "texts or ids", ""});
  }
  TellOfFiles(model, text);
  ReportOptions options;
  options.texts = text.files;
  if (job.profile) options.profile = job.profile->string();
  options.tokens = text.tokens.value_or(0);
  options.context = text.context;
  options.tokenizer.bos = model.state().options.bos;
  options.type = model.type();
  options.rank_tokens = job.rank_tokens;
  for (const ReportPart part : job.skip) {
    options.skip.emplace_back(FieldWord(part));
  }
  options.group = model.state().group;
  options.progress = Tell(job.on_progress);
  options.stop = job.stop;
  const Json json = MakeReport(model.context(), model.folder(), options);
  if (!model.state().is_first()) return {};
  return {.html = HtmlReport(json), .json = json.dump(1)};
}

}  // namespace headwise
