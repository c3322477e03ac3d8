// PyTorch's scaled-dot-product attention, in a process of its own that is told
// when to run, so that its timings interleave with all others. Door: peers.h;
// the other end is bench/peers/torch_sdpa.py.
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>

#include "bench/peers.h"
#include "headwise/base/temporary_folder.h"
#include "headwise/error.h"

namespace headwise::bench {
namespace {

namespace fs = std::filesystem;

// A child that answers one line for each line it is given.
class Child {
 public:
  explicit Child(const std::vector<std::string>& command) {
    std::array<int, 2> to{}, from{};
    if (pipe2(to.data(), O_CLOEXEC) != 0 ||
        pipe2(from.data(), O_CLOEXEC) != 0) {
      throw Error(ErrorCode::kIo, {"peer", "a pipe", "none", ""});
    }
    std::vector<char*> words;
    for (const std::string& word : command) {
      words.push_back(const_cast<char*>(word.c_str()));
    }
    words.push_back(nullptr);
    pid_ = fork();
    if (pid_ == 0) {
      dup2(to[0], STDIN_FILENO);
      dup2(from[1], STDOUT_FILENO);
      execvp(words[0], words.data());
      _exit(127);
    }
    close(to[0]);
    close(from[1]);
    input_ = to[1];
    output_ = fdopen(from[0], "r");
  }
  ~Child() {
    close(input_);  // the end of its input ends it
    if (output_ != nullptr) std::fclose(output_);
    if (pid_ > 0) waitpid(pid_, nullptr, 0);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  void Tell(const std::string& line) {
    const std::string text = line + "\n";
    if (write(input_, text.data(), text.size()) !=
        static_cast<ssize_t>(text.size())) {
      throw Error(ErrorCode::kIo, {"peer", "a running process", "none", ""});
    }
  }
  // Without the end of line; empty when the process is gone.
  std::string Hear() {
    std::string line;
    for (int c; output_ != nullptr && (c = std::fgetc(output_)) != EOF;) {
      if (c == '\n') break;
      line.push_back(static_cast<char>(c));
    }
    return line;
  }

 private:
  pid_t pid_ = -1;
  int input_ = -1;
  FILE* output_ = nullptr;
};

// Inputs travel as files in a folder that goes with the object.
class Exchange {
 public:
  const fs::path& folder() const { return folder_.path(); }
  void Put(const char* name, const Tensor& tensor) const {
    std::ofstream file(folder() / name, std::ios::binary);
    file.write(tensor.As<char>(), static_cast<std::streamsize>(tensor.bytes()));
  }
  void Get(const char* name, Tensor& tensor) const {
    std::ifstream file(folder() / name, std::ios::binary);
    file.read(tensor.As<char>(), static_cast<std::streamsize>(tensor.bytes()));
    if (!file) {
      throw Error(ErrorCode::kIo, {"peer torch", "its output", "less", ""});
    }
  }

 private:
  TemporaryFolder folder_;
};

std::vector<std::string> CommandLine(const fs::path& script, const Row& row,
                                     const fs::path& folder) {
  const char* python = std::getenv("HEADWISE_PYTHON");
  return {python != nullptr ? python : "python3",
          script.string(),
          "--serve",
          folder.string(),
          "--batch",
          std::to_string(row.batch),
          "--heads",
          std::to_string(row.heads),
          "--kv-heads",
          std::to_string(row.kv_heads),
          "--query-len",
          std::to_string(row.query_len),
          "--key-len",
          std::to_string(row.key_len),
          "--head-dim",
          std::to_string(row.head_dim),
          "--type",
          row.type,
          "--mask",
          row.mask,
          "--threads",
          std::to_string(row.threads),
          "--pass",
          row.pass};
}

std::function<double(int)> Ask(std::shared_ptr<Child> child) {
  return [child = std::move(child)](int calls) {
    child->Tell(std::to_string(calls));
    const std::string answer = child->Hear();
    if (answer.empty()) {
      throw Error(ErrorCode::kIo, {"peer torch", "seconds", "no answer", ""});
    }
    return std::strtod(answer.c_str(), nullptr);
  };
}

}  // namespace

void AddTorchAttention(const AttentionRequest& request, Peers& peers) {
  const AttentionProblem& p = request.data.problem;
  const fs::path folder = PeersFolder();
  const bool causal = p.mask == AttentionMask::Causal();
  std::string reason;
  if (folder.empty()) {
    reason = "bench/peers/torch_sdpa.py not found; run from the source tree";
  } else if (!(p.mask == AttentionMask::None()) && !causal) {
    reason = "plain and causal masks only";
  } else if (causal && p.query_len != p.key_len) {
    reason = "causal only where query_len = key_len";
  }
  if (!reason.empty()) {
    peers.notes.push_back("peer torch: " + reason);
    return;
  }
  const Exchange exchange;
  exchange.Put("q", request.data.q);
  exchange.Put("k", request.data.k);
  exchange.Put("v", request.data.v);
  auto child = std::make_shared<Child>(
      CommandLine(folder / "torch_sdpa.py", request.row, exchange.folder()));
  // "ready VERSION" or "refused REASON".
  const std::string answer = child->Hear();
  if (answer.rfind("ready ", 0) != 0) {
    peers.notes.push_back(
        "peer torch: " +
        (answer.rfind("refused ", 0) == 0
             ? answer.substr(8)
             : std::string("python3 could not run bench/peers/torch_sdpa.py")));
    return;
  }
  peers.versions.push_back("torch " + answer.substr(6));
  Tensor out(p.type, {p.batch, p.query_len, p.heads, p.head_dim});
  exchange.Get("out", out);
  const double error = AttentionError(request.data, out);
  if (error > AttentionTolerance(p.type)) {
    peers.notes.push_back(fmt::format(
        "peer torch: left out, its result differs by {:.1e}", error));
    return;
  }
  Candidate candidate{request.row, request.flops, Ask(child)};
  candidate.row.impl = "torch.sdpa_flash";
  candidate.row.peer = true;
  peers.candidates.push_back(std::move(candidate));
}

}  // namespace headwise::bench
