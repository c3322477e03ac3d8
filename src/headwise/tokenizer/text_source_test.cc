#include "headwise/tokenizer/text_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <lzma.h>
#include <zlib.h>
#include <zstd.h>

#include <filesystem>
#include <fstream>

#include "headwise/base/scratch_folder.h"
#include "headwise/error.h"

namespace headwise::text_source_test {
namespace {

using testing::HasSubstr;

class TextSourceTest : public ScratchFolderTest {
 protected:
  std::string Write(const std::string& name, const std::string& bytes) {
    const auto path = folder_ / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << bytes;
    return path.string();
  }
};

std::vector<Document> All(std::vector<std::string> paths) {
  TextSource source(std::move(paths));
  std::vector<Document> documents;
  while (auto document = source.Next()) documents.push_back(*document);
  return documents;
}

std::string MessageOf(std::vector<std::string> paths) {
  try {
    All(std::move(paths));
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

std::string Gzip(const std::string& text) {
  std::string out(text.size() + 100, 0);
  z_stream stream{};
  deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

std::string Xz(const std::string& text) {
  std::string out(lzma_stream_buffer_bound(text.size()), 0);
  size_t size = 0;
  lzma_easy_buffer_encode(0, LZMA_CHECK_CRC32, nullptr,
                          reinterpret_cast<const uint8_t*>(text.data()),
                          text.size(), reinterpret_cast<uint8_t*>(out.data()),
                          &size, out.size());
  out.resize(size);
  return out;
}

std::string Zstd(const std::string& text) {
  std::string out(ZSTD_compressBound(text.size()), 0);
  out.resize(
      ZSTD_compress(out.data(), out.size(), text.data(), text.size(), 1));
  return out;
}

TEST_F(TextSourceTest, FilesAndFoldersInOrder) {
  const std::string b = Write("many/b.txt", "second");
  Write("many/a/x.txt", "first");
  Write("many/.hidden", "not this");
  Write("many/empty.txt", "");
  const std::string last = Write("last.txt", "last");
  const auto documents = All({(folder_ / "many").string(), last});
  ASSERT_EQ(documents.size(), 3);
  EXPECT_EQ(documents[0].text, "first");
  EXPECT_EQ(documents[1].text, "second");
  EXPECT_EQ(documents[1].name, b);
  EXPECT_EQ(documents[1].argument, 0);
  EXPECT_EQ(documents[2].argument, 1);
}

TEST_F(TextSourceTest, CompressionIsKnownByItsFirstBytes) {
  std::string text;
  for (int i = 0; i < 50000; ++i) text += std::to_string(i) + " ";
  for (const auto& bytes : {Gzip(text), Xz(text), Zstd(text)}) {
    const std::string path = Write("packed", bytes);
    const auto documents = All({path});
    ASSERT_EQ(documents.size(), 1);
    EXPECT_EQ(documents[0].text, text);
    const std::string cut = Write("cut", bytes.substr(0, bytes.size() / 2));
    EXPECT_THAT(MessageOf({cut}), HasSubstr("damaged or truncated"));
  }
  const std::string two = Write("two.gz", Gzip("one ") + Gzip("two"));
  EXPECT_EQ(All({two})[0].text, "one two");
}

TEST_F(TextSourceTest, JsonLines) {
  const std::string path =
      Write("news.jsonl.gz", Gzip("{\"text\": \"one\"}\n\n"
                                  "{\"id\": 7, \"text\": \"zw\\u00f6lf\"}"));
  const auto documents = All({path});
  ASSERT_EQ(documents.size(), 2);
  EXPECT_EQ(documents[1].text, "zwölf");
  EXPECT_EQ(documents[1].name, path + ":3");
  const std::string bad =
      Write("bad.jsonl", "{\"text\": \"x\"}\n{\"body\": 1}");
  EXPECT_THAT(MessageOf({bad}), HasSubstr("bad.jsonl:2"));
  EXPECT_THAT(MessageOf({bad}), HasSubstr("text"));
}

// A line that comes in many reads is searched once, and lines that come in one
// read leave it together: both would cost the square of the size.
TEST_F(TextSourceTest, JsonLinesOfAnyLength) {
  const std::string longest(5 << 20, 'x');
  std::string text = "{\"text\": \"" + longest + "\"}\n";
  for (int i = 0; i < 5000; ++i) {
    text += "{\"text\": \"" + std::to_string(i) + "\"}\r\n";
  }
  const auto documents = All({Write("many.jsonl", text)});
  ASSERT_EQ(documents.size(), 5005);
  std::string joined;
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(documents[i].offset, joined.size());
    EXPECT_THAT(documents[i].name, HasSubstr("many.jsonl:1"));
    joined += documents[i].text;
  }
  EXPECT_EQ(joined, longest);
  for (int i = 0; i < 5000; ++i) {
    ASSERT_EQ(documents[i + 5].text, std::to_string(i));
    ASSERT_EQ(documents[i + 5].offset, 0);
  }
}

TEST_F(TextSourceTest, WholeDocumentsOfAFile) {
  const std::string text(3 * TextSource::kMostDocumentBytes, 'x');
  const auto whole = ReadDocuments(Write("long.gz", Gzip(text)));
  ASSERT_EQ(whole.size(), 1);
  EXPECT_EQ(whole[0].text, text);
  EXPECT_EQ(
      ReadDocuments(Write("long.jsonl", "{\"text\": \"" + text + "\"}"))[0]
          .text,
      text);
  EXPECT_TRUE(ReadDocuments(Write("blank.txt", " \n")).empty());
  EXPECT_EQ(ReadDocuments(Write("a.jsonl",
                                "{\"text\": \"one\"}\n"
                                "{\"text\": \"two\"}\n"))
                .size(),
            2);
}

TEST_F(TextSourceTest, FilesOfFoldersButHiddenOnes) {
  const std::string seen = Write("folder/a/x.txt", "text");
  Write("folder/.git/objects", "no text");
  EXPECT_THAT(ListFiles({(folder_ / "folder").string(), seen}),
              testing::ElementsAre(seen, seen));
  EXPECT_FALSE(TextSource({}).Next().has_value());
  EXPECT_THROW(ListFiles({"-"}), Error);
}

TEST_F(TextSourceTest, LongTextComesInWholeCharacters) {
  std::string text;
  while (text.size() < 3 * TextSource::kMostDocumentBytes) {
    text += text.size() < 2 * TextSource::kMostDocumentBytes ? "ö" : "a line\n";
  }
  const auto documents = All({Write("long.txt", text)});
  EXPECT_GE(documents.size(), 3);
  std::string joined;
  for (const Document& document : documents) {
    EXPECT_EQ(document.offset, joined.size());
    EXPECT_LE(document.text.size(), TextSource::kMostDocumentBytes);
    joined += document.text;
  }
  EXPECT_EQ(joined, text);
}

TEST_F(TextSourceTest, WhatIsNoTextIsNamed) {
  EXPECT_THAT(MessageOf({Write("a.bin", std::string("ab\0c", 4))}),
              HasSubstr("binary file: byte 0 at offset 2"));
  EXPECT_THAT(MessageOf({Write("b.txt", "abc\xff")}), HasSubstr("offset 3"));
  EXPECT_THAT(MessageOf({Write("c.txt", " \n")}), HasSubstr("expected text"));
  EXPECT_THAT(MessageOf({(folder_ / "none.txt").string()}),
              HasSubstr("nothing"));
}

}  // namespace
}  // namespace headwise::text_source_test
