// Models for other programs. Door: include/headwise/export_model.h.
#include <filesystem>
#include <string>
#include <system_error>

#include "headwise/base/atomic_file.h"
#include "headwise/base/fields.h"
#include "headwise/context.h"
#include "headwise/error.h"
#include "headwise/export/gguf.h"
#include "headwise/export/huggingface.h"
#include "headwise/export/onnx.h"
#include "headwise/export_model.h"
#include "headwise/heads/pruning/remove.h"
#include "headwise/model/checkpoint.h"

namespace headwise {
namespace {

[[noreturn]] void RefuseExport(const char* where, const std::string& expected,
                               const std::string& found,
                               const std::string& hint = "") {
  throw Error(ErrorCode::kInvalidArgument, {where, expected, found, hint});
}

void RequireKnownChoices(const ExportJob& job) {
  if (job.out.empty()) RefuseExport("`out`", "a folder or file", "none");
  if (job.twin && job.to != ExportTarget::kHuggingFace) {
    RefuseExport("`twin`", "huggingface", "another target",
                 "the others take the heads that are left");
  }
  if (!job.tokenizer && job.to != ExportTarget::kGguf) {
    RefuseExport("`tokenizer`", "gguf, which can do without", "another target");
  }
  if (job.to == ExportTarget::kOnnx && job.type && *job.type != DType::kF32) {
    RefuseExport("`type`", "f32, which ONNX files have", Name(*job.type));
  }
}

// A file is replaced only where that is asked for, and never one that the
// model is read from.
void RequireFreeFile(const std::filesystem::path& folder,
                     const ExportJob& job) {
  std::error_code code;
  if (!job.force && std::filesystem::is_regular_file(job.out, code)) {
    RefuseExport(job.out.string().c_str(), "a file that is not there yet",
                 "one that is",
                 "take another name, or allow to replace it (--force)");
  }
  std::error_code none;  // a link to nothing
  for (std::filesystem::directory_iterator at(folder, code), end;
       !code && at != end; at.increment(code)) {
    if (!std::filesystem::equivalent(at->path(), job.out, none)) continue;
    RefuseExport(job.out.string().c_str(), "another file than the model's own",
                 at->path().string(),
                 "the model would be lost: take another name");
  }
  RequireWritable(job.out);
}

}  // namespace

ExportTarget ParseExportTarget(std::string_view word) {
  ExportTarget target{};
  if (TakeField(std::string(word), target)) return target;
  RefuseExport("`to`", "huggingface, gguf or onnx", std::string(word));
}

std::string Export(const std::filesystem::path& folder, const ExportJob& job) {
  RequireKnownChoices(job);
  // Before the model is opened.
  if (job.to == ExportTarget::kHuggingFace) {
    RequireNewFolder(job.out, job.force ? Replace::kAllowed : Replace::kRefused,
                     folder);
  } else {
    RequireFreeFile(folder, job);
  }
  const Checkpoint checkpoint(folder);
  Context context;
  switch (job.to) {
    case ExportTarget::kHuggingFace:
      return ExportHuggingFace(context, checkpoint, job);
    case ExportTarget::kGguf:
      return ExportGguf(context, checkpoint, job);
    case ExportTarget::kOnnx:
      return ExportOnnx(context, checkpoint, job.out);
  }
  RefuseExport("`to`", "a target", "none that is known");
}

}  // namespace headwise
