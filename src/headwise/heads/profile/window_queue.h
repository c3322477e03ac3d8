// Windows of a text on their way to the model: they wait until it is known
// which of the text's tokens are rare, and those that an interrupted profile
// holds are passed over.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "headwise/heads/profile/notes.h"
#include "headwise/heads/profile/profile.h"
#include "headwise/model/config.h"
#include "headwise/runtime/windows.h"

namespace headwise {

class WindowQueue {
 public:
  // sentences: each is a window of its own; counts: whether frequencies are
  // asked for at all. What is borrowed must outlive it.
  WindowQueue(const ModelConfig& config, const TokenTable& table,
              bool sentences, bool counts);

  // Passes over the windows of an interrupted profile, the next that come.
  void PassOver(const ProfileCounts& held);
  bool passes_over() const { return left_ > 0; }
  // Throws Error(kInvalidArgument): a text that ends before what was to be
  // passed over cannot be the same.
  void RequireAllPassed() const;

  // Text whose frequencies are counted by themselves begins here.
  void BeginCorpus();
  // Throws Error(kInvalidArgument) for what the model cannot read.
  void Add(TokenWindow window);
  // Whether enough tokens are known to say which are rare; nothing: of all
  // text, else of so many tokens that are still to be run.
  bool IsReady(std::optional<int64_t> most) const;

  // Ends counting; the windows that wait and are to be run, until Clear. Throws
  // where those that are passed over are of another text.
  std::span<const TokenWindow> Take();
  void Clear() { waiting_.clear(); }
  const TokenCounts& counts() const { return counts_; }
  int64_t passed_tokens() const { return passed_tokens_; }
  // The size of the windows that wait.
  struct Size {
    int64_t longest = 0, all = 0;  // tokens of a side
  };
  Size size() const;

 private:
  const ModelConfig& config_;
  const TokenTable& table_;
  bool sentences_, needs_counts_;
  std::vector<TokenWindow> waiting_;
  TokenCounts counts_;
  int64_t counted_ = 0;
  bool counting_ = true;
  // Windows still to be passed over, the sum of the keys of all of them, and of
  // those that were.
  int64_t left_ = 0;
  uint64_t held_key_ = 0, passed_key_ = 0;
  int64_t passed_tokens_ = 0;
};

}  // namespace headwise
