// Door: kept_work.h.
#include "headwise/runtime/kept_work.h"

#include <fmt/core.h>
#include <xxhash.h>

#include <filesystem>
#include <system_error>
#include <utility>

#include "headwise/base/atomic_file.h"
#include "headwise/base/mapped_file.h"
#include "headwise/dist/pack.h"
#include "headwise/error.h"

namespace headwise {
namespace {

// A file: this line, a hash of the rest, the rest.
constexpr std::string_view kPassFormat = "headwise.pass/1\n";
// What rankings wrote before, a safetensors file.
constexpr std::string_view kLossesFormat = "headwise.losses/1";

void Put(const PassState& pass, dist::Packer& to) {
  to.Put(pass.next);
  to.Put(pass.sum);
  to.Put(pass.waiting.size());
  for (const auto& [part, message] : pass.waiting) {
    to.Put(part);
    to.Put(message);
  }
  to.Put(pass.open_part);
  to.Put(pass.open);
}

PassState GetPass(dist::Unpacker& from) {
  PassState pass;
  pass.next = from.Get<size_t>();
  pass.sum = from.GetString();
  for (auto left = from.Get<size_t>(); left > 0; --left) {
    const auto part = from.Get<size_t>();
    pass.waiting[part] = from.GetString();
  }
  pass.open_part = from.Get<size_t>();
  pass.open = from.GetString();
  return pass;
}

[[noreturn]] void RefuseFile(const std::string& path, std::string_view text) {
  const bool old = text.substr(0, 4096).find(kLossesFormat) != text.npos;
  throw Error(ErrorCode::kCorrupt,
              {path, "interrupted work (headwise.pass/1)",
               old ? "that of an earlier version (headwise.losses/1)"
                   : "something else, or a part of it",
               "without `resume` the work begins anew"});
}

}  // namespace

std::string KeyOf(std::string_view bytes) {
  return fmt::format("{:016x}", XXH3_64bits(bytes.data(), bytes.size()));
}

KeptWork::KeptWork(std::string where, PartialWork job,
                   std::function<KeptKey()> key)
    : where_(std::move(where)), job_(std::move(job)), key_(std::move(key)) {
  if (job_.resume) Load();
}

void KeptWork::Load() {
  const std::string path = job_.file->string();
  std::error_code unknown;
  if (!std::filesystem::exists(path, unknown)) {
    throw Error(ErrorCode::kNotFound,
                {path, "interrupted work", "none",
                 "begin without `resume`, or name the file that it is in"});
  }
  const MappedFile file(path);
  std::string_view text = file.text();
  uint64_t hash = 0;
  if (!text.starts_with(kPassFormat) ||
      text.size() < kPassFormat.size() + sizeof(hash)) {
    RefuseFile(path, text);
  }
  dist::Unpacker from(text.substr(kPassFormat.size()));
  hash = from.Get<uint64_t>();
  text.remove_prefix(kPassFormat.size() + sizeof(hash));
  if (XXH3_64bits(text.data(), text.size()) != hash) {
    RefuseFile(path, text);
  }
  const KeptKey ours = key_();
  const KeptKey theirs = {from.GetString(), from.GetString(), from.GetString()};
  if (theirs != ours) {
    throw Error(ErrorCode::kInvalidArgument,
                {path, "work on the same model, text and settings",
                 std::string("work on ") +
                     (theirs.model != ours.model ? "another model"
                      : theirs.text != ours.text ? "another text"
                                                 : "other settings"),
                 "without `resume` the work begins anew"});
  }
  for (auto left = from.Get<size_t>(); left > 0; --left) {
    std::string name = from.GetString();
    passes_[std::move(name)] = GetPass(from);
  }
  ours_ = true;
}

PassState KeptWork::Begin(const std::string& name,
                          std::function<PassState()> state) {
  const int number = ++begun_[name];
  open_ = number == 1 ? name : name + ", again " + std::to_string(number);
  state_ = std::move(state);
  return passes_[open_];
}

void KeptWork::TakeState() {
  if (state_) passes_[open_] = state_();
}

void KeptWork::End() {
  TakeState();
  state_ = {};
}

bool KeptWork::has_work() const {
  for (const auto& [name, pass] : passes_) {
    if (!pass.empty()) return true;
  }
  return false;
}

void KeptWork::Tick() {
  if (job_.checkpoint_seconds <= 0 || failed_) return;
  const auto now = std::chrono::steady_clock::now();
  if (std::chrono::duration<double>(now - saved_at_).count() <
      job_.checkpoint_seconds) {
    return;
  }
  TakeState();
  if (has_work()) Save();
  saved_at_ = std::chrono::steady_clock::now();
}

void KeptWork::Finish() {
  if (!ours_) return;
  std::error_code ignored;
  std::filesystem::remove(*job_.file, ignored);
}

void KeptWork::ThrowInterrupted() {
  TakeState();
  const std::string path = job_.file->string();
  throw Error(ErrorCode::kCancelled,
              {where_, "to finish", "an interruption",
               !has_work() ? "nothing was measured yet"
               : Save()    ? "what it has is kept in " + path +
                              "; the same command with `resume` continues"
                        : "what it has could not be written to " + path});
}

bool KeptWork::Save() {
  dist::Packer to;
  const KeptKey key = key_();
  for (const std::string* word : {&key.model, &key.text, &key.settings}) {
    to.Put(*word);
  }
  to.Put(passes_.size());
  for (const auto& [name, pass] : passes_) {
    to.Put(name);
    Put(pass, to);
  }
  const std::string bytes = to.Take();
  dist::Packer hash;
  hash.Put<uint64_t>(XXH3_64bits(bytes.data(), bytes.size()));
  try {
    AtomicFile file(*job_.file);
    file.Write(kPassFormat);
    file.Write(hash.Take());
    file.Write(bytes);
    file.Commit();
    ours_ = true;
  } catch (const Error&) {
    failed_ = true;
  }
  return !failed_;
}

}  // namespace headwise
