// Door: open_model.h.
#include "open_model.h"

#include "console.h"
#include "failure.h"

namespace headwise {

Transformer OpenTransformer(const std::string& folder,
                            const EngineFlags& engine,
                            const ReadingFlags& reading) {
  OpenOptions options;
  options.device = engine.context().device;
  options.type = engine.compute();
  options.threads = engine.threads;
  options.bos = reading.options().bos;
  options.on_notice = [](std::string_view notice) {
    const std::string context[] = {"--context"};
    WriteStderr("warning: {}\n", WithFlags(notice, context));
  };
  return Transformer(folder, options);
}

TextInput InputOf(const TextFlags& flags) {
  TextInput input;
  input.files = flags.paths;
  input.context = flags.context;
  input.tokens = flags.tokens;
  return input;
}

TextInput InputOf(const TextArgument& argument, int64_t context) {
  RequireText(argument);
  TextInput input = argument.path.empty() ? TextInput::Of(argument.sentence)
                                          : TextInput::Files({argument.path});
  input.context = context;
  return input;
}

Json WithModel(const std::string& folder, std::string_view json) {
  Json result = {{"model", folder}};
  result.update(ParseJson(json, "result"));
  return result;
}

}  // namespace headwise
