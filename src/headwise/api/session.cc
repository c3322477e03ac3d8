// Text that grows. Doors: include/headwise/generate.h, session.h, cache.h.
#include "headwise/session.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "headwise/api/notices.h"
#include "headwise/api/state.h"
#include "headwise/backend/cpu/thread_pool.h"
#include "headwise/base/fields.h"
#include "headwise/cache.h"
#include "headwise/error.h"
#include "headwise/format/token_ids.h"
#include "headwise/generate.h"
#include "headwise/model.h"
#include "headwise/model/room.h"
#include "headwise/model/text_frame.h"
#include "headwise/ops/copy/copy.h"
#include "headwise/runtime/generate.h"
#include "headwise/runtime/kv_policy.h"
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
                {"generate",
                 "a prompt of at most " + std::to_string(capacity) + " tokens",
                 std::to_string(count), "`truncate` keeps the last ones"});
  }
  ids.erase(ids.begin(), ids.end() - capacity);
}

// Tokens of a text in the end, at most; any number of them may be asked for.
int64_t MostOf(const std::vector<int32_t>& prompt, const GenerateJob& job) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  return std::ssize(prompt) +
         std::min(job.max_tokens, kMost - std::ssize(prompt));
}

// A context beyond the model's own, where positions allow it and `most` tokens
// may come to use it.
void TellContext(const Transformer& model, const GenerateJob& job,
                 int64_t most) {
  if (job.context == 0) return;
  const ModelConfig& config = model.state().checkpoint.config();
  TellPastContext(model, std::min(ContextOf(config, job.context), most));
}

Generated Continue(Transformer& model, std::vector<int32_t> prompt,
                   const GenerateJob& job) {
  CheckFields(job, "generate");
  Transformer::State& state = model.state();
  Generated result;
  result.prompt = std::move(prompt);
  Truncate(model, job, result.prompt);
  const int64_t most = MostOf(result.prompt, job);
  TellContext(model, job, most);
  const int64_t room = job.context > 0 ? job.context : model.info().context;
  RequireRoom(state.context,
              GenerateNeeds(state.context, state.model(),
                            std::ssize(result.prompt), std::min(room, most)));
  const CachedRun cached(*state.interventions);
  result.ids = Generate(state.context, state.model(), result.prompt, job,
                        state.interventions->hooks());
  if (model.has_tokenizer()) result.text = model.Decode(result.ids);
  return result;
}

// Nothing at all is begun by the begin token, unless none was wanted.
std::vector<int32_t> IdsOf(const Transformer& model, std::string_view prompt) {
  std::vector<int32_t> ids = model.Encode(prompt).ids;
  if (ids.empty() && model.state().options.bos != BosChoice::kNo) {
    ids = FrameOf(model.state().checkpoint.config()).before;
  }
  return ids;
}

// Texts for many threads: a text grows token by token, and small models have no
// work for several threads in one.
class EachPrompt {
 public:
  EachPrompt(Transformer& model, std::span<const std::string> prompts,
             const GenerateJob& job)
      : model_(model),
        prompts_(prompts),
        asked_(job),
        job_(job),
        results_(prompts.size()) {
    job_.on_token = {};
    if (job.on_cache) {
      job_.on_cache = [this](const CacheBytes& bytes) {
        const std::lock_guard lock(mutex_);
        asked_.on_cache(bytes);
      };
    }
  }

  std::vector<Generated> Run() {
    Transformer::State& state = model_.state();
    const auto count = std::ssize(prompts_);
    const CachedRun cached(*state.interventions);
    if (state.interventions->has_hooks()) {
      for (int64_t i = 0; i < count; ++i) One(state.context, i);
      return std::move(results_);
    }
    std::vector<std::unique_ptr<Context>> own(state.context.threads());
    ContextOptions alone = ContextFor(state.options);
    alone.threads = 1;
    for (auto& one : own) one = std::make_unique<Context>(alone);
    state.context.pool().ParallelFor(
        count, [&](int64_t i, int worker) { One(*own[worker], i); });
    return std::move(results_);
  }

 private:
  void One(Context& context, int64_t i) {
    if (job_.stop.stop_requested()) return;
    Generated result;
    result.prompt = IdsOf(model_, prompts_[i]);
    if (result.prompt.empty()) return;
    Truncate(model_, job_, result.prompt);
    result.ids = Generate(context, model_.state().model(), result.prompt, job_,
                          model_.state().interventions->hooks());
    result.text = model_.Decode(result.ids);
    results_[i] = std::move(result);
    const std::lock_guard lock(mutex_);
    if (!job_.on_progress) return;
    job_.on_progress("generate", ++done_, static_cast<double>(prompts_.size()));
  }

  Transformer& model_;
  std::span<const std::string> prompts_;
  const GenerateJob& asked_;
  GenerateJob job_;  // of one text
  std::vector<Generated> results_;
  std::mutex mutex_;
  double done_ = 0;
};

}  // namespace

Generated Generate(Transformer& model, std::string_view prompt,
                   const GenerateJob& job) {
  const ModelUse use(model);
  TellUnknownScript(model, prompt);
  return Continue(model, IdsOf(model, prompt), job);
}

std::vector<Generated> GenerateEach(Transformer& model,
                                    std::span<const std::string> prompts,
                                    const GenerateJob& job) {
  const ModelUse use(model);
  CheckFields(job, "generate");
  model.tokenizer();                    // throws where there is none
  constexpr size_t kEnough = 16 << 10;  // to tell a script by
  std::string beginning;
  for (size_t i = 0; i < prompts.size() && beginning.size() < kEnough; ++i) {
    beginning += prompts[i] + '\n';
  }
  TellUnknownScript(model, beginning);
  TellContext(model, job, job.context);
  return EachPrompt(model, prompts, job).Run();
}

KvPolicy ReadKvPolicy(const std::filesystem::path& path,
                      const Transformer& model) {
  return ReadKvPolicy(path, model.state().model(), model.hash());
}

std::string JsonText(const KvPolicy& policy, const std::string& model_hash) {
  return ToJson(policy, model_hash).dump(1);
}

Generated Generate(Transformer& model, std::span<const int32_t> prompt,
                   const GenerateJob& job) {
  const ModelUse use(model);
  RequireTokenIds(prompt, model.info().vocabulary, "generate");
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
  const ModelUse use(model);
  state_ = std::make_unique<State>(model, sequences, context);
}
Conversation::~Conversation() = default;
Conversation::Conversation(Conversation&&) noexcept = default;
Conversation& Conversation::operator=(Conversation&&) noexcept = default;

int64_t Conversation::position() const { return state_->session.position(); }
int64_t Conversation::capacity() const { return state_->session.capacity(); }
int64_t Conversation::sequences() const { return state_->session.sequences(); }

void Conversation::Encode(std::span<const int32_t> source) {
  const ModelUse use(state_->model);
  RequireTokenIds(source, state_->model.info().vocabulary, "source");
  const CachedRun cached(*state_->interventions);
  state_->session.Encode(source);
}

Tensor Conversation::Feed(std::span<const int32_t> ids) {
  const ModelUse use(state_->model);
  RequireTokenIds(ids, state_->model.info().vocabulary, "ids");
  Context& context = state_->model.context();
  const CachedRun cached(*state_->interventions);
  const Tensor& logits = state_->session.Feed(ids);
  Tensor copy(DType::kF32, {logits.shape(0), logits.shape(1)}), home;
  Copy(context, OnHost(context, logits.view(), home), copy.view());
  return copy;
}

void Conversation::Clear() {
  const ModelUse use(state_->model);
  state_->session.Clear();
}
void Conversation::Reorder(std::span<const int32_t> order) {
  const ModelUse use(state_->model);
  state_->session.Reorder(order);
}

}  // namespace headwise
