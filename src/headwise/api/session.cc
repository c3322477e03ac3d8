// Text that grows. Door: include/headwise/session.h.
#include "headwise/session.h"

#include <string>
#include <utility>

#include "headwise/api/state.h"
#include "headwise/error.h"
#include "headwise/format/token_ids.h"
#include "headwise/model/text_frame.h"
#include "headwise/ops/copy/copy.h"
#include "headwise/runtime/generate.h"
#include "headwise/runtime/session.h"

namespace headwise {
namespace {

// The last tokens that leave room for at least one more.
void Truncate(const Transformer& model, const GenerateJob& job,
              std::vector<int32_t>& ids) {
  const int64_t capacity = job.context > 0 ? job.context : model.info().context;
  const int64_t count = std::ssize(ids);
  if (count <= capacity) return;
  if (!job.truncate) {
    throw Error(ErrorCode::kInvalidArgument,
                {"prompt", "at most " + std::to_string(capacity) + " tokens",
                 std::to_string(count), "truncate keeps the last ones"});
  }
  ids.erase(ids.begin(), ids.end() - capacity);
}

GenerateOptions OptionsOf(const GenerateJob& job, RunHooks* hooks) {
  GenerateOptions options;
  options.max_tokens = job.max_tokens;
  options.capacity = job.context;
  options.beam = job.beam;
  options.length_penalty = job.length_penalty;
  options.sampler.temperature = job.temperature;
  options.sampler.top_k = job.top_k;
  options.sampler.top_p = job.top_p;
  options.sampler.seed = job.seed;
  options.hooks = hooks;
  options.stop = job.stop;
  options.on_token = job.on_token;
  return options;
}

void RequireSizes(const GenerateJob& job) {
  if (job.max_tokens >= 0 && job.context >= 0 && job.beam >= 1) return;
  throw Error(
      ErrorCode::kInvalidArgument,
      {"generate", "max_tokens and context from 0, beam from 1", "others", ""});
}

Generated Continue(Transformer& model, std::vector<int32_t> prompt,
                   const GenerateJob& job) {
  RequireSizes(job);
  Transformer::State& state = model.state();
  Generated result;
  result.prompt = std::move(prompt);
  Truncate(model, job, result.prompt);
  const CachedRun cached(*state.interventions);
  result.ids = Generate(state.context, state.model(), result.prompt,
                        OptionsOf(job, state.interventions->hooks()));
  if (model.has_tokenizer()) result.text = model.Decode(result.ids);
  return result;
}

}  // namespace

Generated Generate(Transformer& model, std::string_view prompt,
                   const GenerateJob& job) {
  std::vector<int32_t> ids = model.Encode(prompt).ids;
  // Nothing at all is begun by the begin token, unless none was wanted.
  if (ids.empty() && model.state().options.bos != BosChoice::kNo) {
    ids = FrameOf(model.state().checkpoint.config()).before;
  }
  return Continue(model, std::move(ids), job);
}

Generated Generate(Transformer& model, std::span<const int32_t> prompt,
                   const GenerateJob& job) {
  RequireTokenIds(prompt, model.info().vocabulary, "prompt");
  return Continue(model, {prompt.begin(), prompt.end()}, job);
}

// Hooks of a session are fixed when it is made, and edits come and go.
struct Conversation::State {
  State(Transformer& of, int64_t sequences, int64_t context)
      : model(of),
        interventions(of.state().interventions),
        session(of.state().context, of.state().model(),
                {.sequences = sequences,
                 .capacity = context,
                 .hooks = interventions.get()}) {}

  Transformer& model;
  std::shared_ptr<Interventions> interventions;
  Session session;
};

Conversation::Conversation(Transformer& model, int64_t sequences,
                           int64_t context) {
  if (sequences < 1 || context < 0) {
    throw Error(
        ErrorCode::kInvalidArgument,
        {"sequences and context", "from 1 and from 0",
         std::to_string(sequences) + " and " + std::to_string(context), ""});
  }
  state_ = std::make_unique<State>(model, sequences, context);
}
Conversation::~Conversation() = default;
Conversation::Conversation(Conversation&&) noexcept = default;
Conversation& Conversation::operator=(Conversation&&) noexcept = default;

int64_t Conversation::position() const { return state_->session.position(); }
int64_t Conversation::capacity() const { return state_->session.capacity(); }
int64_t Conversation::sequences() const { return state_->session.sequences(); }

void Conversation::Encode(std::span<const int32_t> source) {
  RequireTokenIds(source, state_->model.info().vocabulary, "source");
  const CachedRun cached(*state_->interventions);
  state_->session.Encode(source);
}

Tensor Conversation::Feed(std::span<const int32_t> ids) {
  RequireTokenIds(ids, state_->model.info().vocabulary, "ids");
  Context& context = state_->model.context();
  const CachedRun cached(*state_->interventions);
  const Tensor& logits = state_->session.Feed(ids);
  Tensor copy(DType::kF32, {logits.shape(0), logits.shape(1)}), home;
  Copy(context, OnHost(context, logits.view(), home), copy.view());
  return copy;
}

void Conversation::Clear() { state_->session.Clear(); }
void Conversation::Reorder(std::span<const int32_t> order) {
  state_->session.Reorder(order);
}

}  // namespace headwise
