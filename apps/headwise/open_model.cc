// Door: open_model.h.
#include "open_model.h"

#include <filesystem>

#include "console.h"
#include "failure.h"
#include "headwise/work_group.h"
#include "ranks.h"

namespace headwise {

Transformer OpenTransformer(const std::string& folder,
                            const EngineFlags& engine,
                            const ReadingFlags& reading) {
  OpenOptions options;
  const ContextOptions context = engine.context();
  options.device = context.device;
  options.type = engine.compute();
  options.threads = context.threads;
  options.weight_memory = engine.prepared_bytes();
  options.bos = reading.bos;
  options.on_notice = [](std::string_view notice) {
    const std::string flags[] = {"--context", "--weight-memory"};
    WriteStderr("warning: {}\n", WithFlags(notice, flags));
  };
  Transformer model(folder, options);
  ShareWork(model, RankGroup());
  return model;
}

TextInput InputOf(const TextArgument& argument, int64_t context) {
  RequireText(argument);
  TextInput input = argument.path.empty() ? TextInput::Of(argument.sentence)
                                          : TextInput::Files({argument.path});
  input.context = context;
  return input;
}

PartialWork KeptBy(PartialWork job, const RunFlags& run, const char* command) {
  if (!job.file) {
    job.file = std::filesystem::canonical(run.model).filename().string() + "." +
               command + ".partial";
  }
  return job;
}

Json WithModel(const std::string& folder, std::string_view json) {
  Json result = {{"model", folder}};
  result.update(ParseJson(json, "result"));
  return result;
}

}  // namespace headwise
