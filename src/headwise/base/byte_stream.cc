// Files and their compressions. Door: byte_stream.h.
#include "headwise/base/byte_stream.h"

#include <fcntl.h>
#include <lzma.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "headwise/error.h"

namespace headwise {
namespace {

constexpr size_t kBuffer = size_t{1} << 17;

[[noreturn]] void Corrupt(const std::string& name, const char* kind) {
  throw Error(
      ErrorCode::kCorrupt,
      {name, std::string("a whole ") + kind + " stream",
       "a damaged or truncated one", "copy or compress the file again"});
}

// A descriptor with a look at its first bytes.
class RawBytes : public ByteStream {
 public:
  explicit RawBytes(const std::filesystem::path& path)
      : name_(path == "-" ? "standard input" : path.string()) {
    if (path == "-") {
      descriptor_ = ::dup(STDIN_FILENO);
    } else {
      descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    }
    if (descriptor_ < 0) {
      throw Error(errno == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo,
                  {name_, "a file that can be read", std::strerror(errno), ""});
    }
  }
  ~RawBytes() override { ::close(descriptor_); }
  RawBytes(const RawBytes&) = delete;
  RawBytes& operator=(const RawBytes&) = delete;

  size_t Read(char* data, size_t size) override {
    if (at_ < held_.size()) {
      const size_t count = std::min(size, held_.size() - at_);
      std::memcpy(data, held_.data() + at_, count);
      at_ += count;
      return count;
    }
    return ReadSystem(data, size);
  }

  // The first bytes (fewer where the file ends), which Read gives again.
  const std::string& Peek(size_t size) {
    held_.resize(size);
    size_t have = 0;
    while (have < size) {
      const size_t count = ReadSystem(held_.data() + have, size - have);
      if (count == 0) break;
      have += count;
    }
    held_.resize(have);
    return held_;
  }

  const std::string& name() const { return name_; }

 private:
  size_t ReadSystem(char* data, size_t size) {
    while (true) {
      const ssize_t count = ::read(descriptor_, data, size);
      if (count >= 0) return static_cast<size_t>(count);
      if (errno == EINTR) continue;
      throw Error(ErrorCode::kIo,
                  {name_, "a file that can be read", std::strerror(errno), ""});
    }
  }

  std::string name_;
  int descriptor_ = -1;
  std::string held_;
  size_t at_ = 0;
};

// What the three decompressors share: compressed bytes in a buffer.
class Decompressor : public ByteStream {
 public:
  explicit Decompressor(std::unique_ptr<RawBytes> raw)
      : raw_(std::move(raw)), buffer_(kBuffer) {}

 protected:
  // Refills the buffer when it is used up; false at the end of the file.
  bool Refill() {
    if (begin_ < end_) return true;
    begin_ = 0;
    end_ = raw_->Read(buffer_.data(), buffer_.size());
    return end_ > 0;
  }
  const std::string& name() const { return raw_->name(); }

  std::unique_ptr<RawBytes> raw_;
  std::vector<char> buffer_;
  size_t begin_ = 0;
  size_t end_ = 0;
};

class GzipBytes : public Decompressor {
 public:
  explicit GzipBytes(std::unique_ptr<RawBytes> raw)
      : Decompressor(std::move(raw)) {
    // 15: the largest window; + 16: a gzip header.
    if (inflateInit2(&stream_, 15 + 16) != Z_OK) Corrupt(name(), "gzip");
  }
  ~GzipBytes() override { inflateEnd(&stream_); }

  size_t Read(char* data, size_t size) override {
    stream_.next_out = reinterpret_cast<Bytef*>(data);
    stream_.avail_out = static_cast<uInt>(std::min<size_t>(size, 1U << 30));
    const uInt asked = stream_.avail_out;
    while (stream_.avail_out == asked) {
      if (!Refill()) {
        if (!inside_) return 0;
        Corrupt(name(), "gzip");
      }
      // A file may hold several streams, one after another.
      if (!inside_) {
        inflateReset(&stream_);
        inside_ = true;
      }
      stream_.next_in = reinterpret_cast<Bytef*>(buffer_.data() + begin_);
      stream_.avail_in = static_cast<uInt>(end_ - begin_);
      const int result = inflate(&stream_, Z_NO_FLUSH);
      begin_ = end_ - stream_.avail_in;
      if (result == Z_STREAM_END) {
        inside_ = false;
      } else if (result != Z_OK) {
        Corrupt(name(), "gzip");
      }
    }
    return asked - stream_.avail_out;
  }

 private:
  z_stream stream_{};
  bool inside_ = true;
};

class XzBytes : public Decompressor {
 public:
  explicit XzBytes(std::unique_ptr<RawBytes> raw)
      : Decompressor(std::move(raw)) {
    // A gigabyte is what the strongest usual preset needs fifteen times over.
    if (lzma_stream_decoder(&stream_, uint64_t{1} << 30, LZMA_CONCATENATED) !=
        LZMA_OK) {
      Corrupt(name(), "xz");
    }
  }
  ~XzBytes() override { lzma_end(&stream_); }

  size_t Read(char* data, size_t size) override {
    stream_.next_out = reinterpret_cast<uint8_t*>(data);
    stream_.avail_out = size;
    while (!done_ && stream_.avail_out == size) {
      const bool more = Refill();
      stream_.next_in = reinterpret_cast<uint8_t*>(buffer_.data() + begin_);
      stream_.avail_in = end_ - begin_;
      const lzma_ret result =
          lzma_code(&stream_, more ? LZMA_RUN : LZMA_FINISH);
      begin_ = end_ - stream_.avail_in;
      if (result == LZMA_STREAM_END) {
        done_ = true;
      } else if (result != LZMA_OK) {
        Corrupt(name(), "xz");
      }
    }
    return size - stream_.avail_out;
  }

 private:
  lzma_stream stream_ = LZMA_STREAM_INIT;
  bool done_ = false;
};

class ZstdBytes : public Decompressor {
 public:
  explicit ZstdBytes(std::unique_ptr<RawBytes> raw)
      : Decompressor(std::move(raw)), stream_(ZSTD_createDStream()) {
    if (stream_ == nullptr) throw std::bad_alloc();
  }
  ~ZstdBytes() override { ZSTD_freeDStream(stream_); }

  size_t Read(char* data, size_t size) override {
    ZSTD_outBuffer out = {data, size, 0};
    while (out.pos == 0) {
      const bool more = Refill();
      if (!more && !inside_) return 0;
      ZSTD_inBuffer in = {buffer_.data(), end_, begin_};
      const size_t left = ZSTD_decompressStream(stream_, &out, &in);
      begin_ = in.pos;
      if (ZSTD_isError(left) != 0 || (!more && out.pos == 0)) {
        Corrupt(name(), "zstd");
      }
      inside_ = left != 0;
    }
    return out.pos;
  }

 private:
  ZSTD_DStream* stream_;
  bool inside_ = false;
};

}  // namespace

std::unique_ptr<ByteStream> OpenBytes(const std::filesystem::path& path) {
  auto raw = std::make_unique<RawBytes>(path);
  const std::string& first = raw->Peek(6);
  if (first.starts_with("\x1f\x8b")) {
    return std::make_unique<GzipBytes>(std::move(raw));
  }
  if (first == std::string_view("\xfd\x37zXZ\0", 6)) {
    return std::make_unique<XzBytes>(std::move(raw));
  }
  if (first.starts_with("\x28\xb5\x2f\xfd")) {
    return std::make_unique<ZstdBytes>(std::move(raw));
  }
  return raw;
}

}  // namespace headwise
