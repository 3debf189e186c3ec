/* tests/stress/real_libraries_test.cc - libraries that the world uses, on hakmem through their own allocator hooks.
 *
 * Several threads work in them, and what one made another gives back: results, documents, whole databases and
 * interpreters. So the ThreadSanitizer build runs code that was not written for an allocator's test. A library that is
 * not installed is skipped. The calls of hakmem are counted: nothing may be missing at the end.
 */
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "hakmem/hakmem.h"
#include "support/scale.h"
#include "support/test_random.h"

#if HK_HAVE_SQLITE
#include <sqlite3.h>
#endif
#if HK_HAVE_LIBXML2
#include <libxml/parser.h>
#include <libxml/tree.h>
#include <libxml/xpath.h>
#endif
#if HK_HAVE_LUA
#include <lua.hpp>
#endif
#if HK_HAVE_ZLIB
#include <zlib.h>
#endif

using namespace hk_test;

namespace {

constexpr size_t kThreads = 4;

/* Relaxed: they must not order what the libraries' threads do. */
std::atomic<size_t> blocks_made, blocks_freed;

[[maybe_unused]] void *Allocate(size_t size) {
  void *block = hakmem_malloc(size);
  if (block != nullptr) blocks_made.fetch_add(1, std::memory_order_relaxed);
  return block;
}

[[maybe_unused]] void Free(void *block) {
  if (block != nullptr) blocks_freed.fetch_add(1, std::memory_order_relaxed);
  hakmem_free(block);
}

[[maybe_unused]] void *Reallocate(void *block, size_t size) {
  void *moved = hakmem_realloc(block, size);
  if (block == nullptr && moved != nullptr) blocks_made.fetch_add(1, std::memory_order_relaxed);
  return moved;
}

/* Work for another thread than the one that hands it in: mostly to free something. */
class ForOthers {
 public:
  void Put(std::function<void()> task) {
    std::lock_guard<std::mutex> lock(mutex_);
    tasks_.push_back(std::move(task));
  }

  void DoAll() {
    std::vector<std::function<void()>> tasks;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      tasks.swap(tasks_);
    }
    for (std::function<void()> &task : tasks) task();
  }

 private:
  std::mutex mutex_;
  std::vector<std::function<void()>> tasks_;
};

class RealLibraries : public testing::Test {
 protected:
  void SetUp() override {
    blocks_made = blocks_freed = 0;
    alarm(600);
  }

  void TearDown() override {
    alarm(0);
    if (IsSkipped()) return;
    EXPECT_GT(blocks_made, rounds_ * kThreads) << "the library did not use the allocator it was given";
    EXPECT_EQ(blocks_made, blocks_freed);
  }

  /* `body(thread, round)` in each thread; each thread does what its neighbour leaves. */
  template <typename Body>
  void Run(size_t rounds, Body body) {
    rounds_ = rounds;
    std::vector<std::thread> threads;
    for (size_t self = 0; self < kThreads; self++) {
      threads.emplace_back([this, rounds, body, self] {
        for (size_t round = 0; round < rounds; round++) {
          body(self, round);
          from_[(self + 1) % kThreads].DoAll();
        }
      });
    }
    for (std::thread &thread : threads) thread.join();
    for (ForOthers &tasks : from_) tasks.DoAll();
  }

  ForOthers from_[kThreads];

 private:
  size_t rounds_ = 0;
};

/* ---- SQLite: a database for each thread, and one for all. */

#if HK_HAVE_SQLITE

/* One mutex around all counting would put the threads one behind the other, so there are no statistics; and the
 * store of small pieces that each connection keeps is off: every request is to come here. */
void PrepareSqlite() {
  static const sqlite3_mem_methods methods = {
      [](int size) { return Allocate(static_cast<size_t>(size)); },
      Free,
      [](void *block, int size) { return Reallocate(block, static_cast<size_t>(size)); },
      [](void *block) { return static_cast<int>(hakmem_malloc_usable_size(block)); },
      [](int size) { return static_cast<int>(hakmem_good_size(static_cast<size_t>(size))); },
      [](void *) { return SQLITE_OK; },
      [](void *) {},
      nullptr,
  };
  ASSERT_EQ(sqlite3_config(SQLITE_CONFIG_MALLOC, &methods), SQLITE_OK);
  ASSERT_EQ(sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0), SQLITE_OK);
  ASSERT_EQ(sqlite3_config(SQLITE_CONFIG_LOOKASIDE, 0, 0), SQLITE_OK);
  ASSERT_EQ(sqlite3_config(SQLITE_CONFIG_SERIALIZED), SQLITE_OK);
  ASSERT_EQ(sqlite3_initialize(), SQLITE_OK);
}

sqlite3 *OpenDatabase() {
  sqlite3 *database = nullptr;
  EXPECT_EQ(sqlite3_open(":memory:", &database), SQLITE_OK);
  EXPECT_EQ(sqlite3_exec(database, "create table t(thread, n, text)", nullptr, nullptr, nullptr), SQLITE_OK);
  return database;
}

constexpr int kRows = 60;

void InsertRows(sqlite3 *database, size_t thread) {
  char *statement = sqlite3_mprintf(
      "with recursive c(n) as (select 1 union all select n + 1 from c where n < %d)"
      " insert into t select %d, n, printf('%%.*c', n * 7, 'x') from c",
      kRows, static_cast<int>(thread));
  EXPECT_EQ(sqlite3_exec(database, statement, nullptr, nullptr, nullptr), SQLITE_OK) << sqlite3_errmsg(database);
  sqlite3_free(statement);
}

/* The rows of one thread, sorted by text, in one piece: a value that its receiver frees. */
sqlite3_value *GatherRows(sqlite3 *database, size_t thread) {
  sqlite3_stmt *statement = nullptr;
  EXPECT_EQ(
      sqlite3_prepare_v2(
          database, "select group_concat(n || text, ',') from (select * from t where thread = ? order by text desc)",
          -1, &statement, nullptr),
      SQLITE_OK);
  sqlite3_bind_int(statement, 1, static_cast<int>(thread));
  EXPECT_EQ(sqlite3_step(statement), SQLITE_ROW);
  sqlite3_value *value = sqlite3_value_dup(sqlite3_column_value(statement, 0));
  sqlite3_finalize(statement);
  return value;
}

TEST_F(RealLibraries, Sqlite) {
  PrepareSqlite();
  sqlite3 *shared = OpenDatabase();
  Run(Scaled(60, 3), [this, shared](size_t self, size_t) {
    sqlite3 *own = OpenDatabase();
    InsertRows(own, self);
    sqlite3_value *of_own = GatherRows(own, self);
    EXPECT_EQ(sqlite3_exec(own, "create index i on t(text); delete from t where n % 2 = 0; vacuum", nullptr, nullptr,
                           nullptr),
              SQLITE_OK);
    InsertRows(shared, self);
    sqlite3_value *of_shared = GatherRows(shared, self);
    EXPECT_EQ(sqlite3_exec(shared, ("delete from t where thread = " + std::to_string(self)).c_str(), nullptr, nullptr,
                           nullptr),
              SQLITE_OK);
    from_[self].Put([own, of_own, of_shared] {
      int bytes = sqlite3_value_bytes(of_own);
      EXPECT_GT(bytes, kRows * kRows * 7 / 2);
      EXPECT_EQ(sqlite3_value_bytes(of_shared), bytes);
      EXPECT_EQ(std::memcmp(sqlite3_value_blob(of_own), sqlite3_value_blob(of_shared), static_cast<size_t>(bytes)), 0);
      sqlite3_value_free(of_own);
      sqlite3_value_free(of_shared);
      EXPECT_EQ(sqlite3_close(own), SQLITE_OK);
    });
  });
  EXPECT_EQ(sqlite3_close(shared), SQLITE_OK);
  sqlite3_shutdown();
}

#else
TEST_F(RealLibraries, Sqlite) { GTEST_SKIP() << "no libsqlite3-dev"; }
#endif

/* ---- libxml2: documents. */

#if HK_HAVE_LIBXML2

std::string DocumentText(size_t seed) {
  std::string text = "<list>";
  for (size_t i = 0; i < 40; i++) {
    std::string number = std::to_string(seed + i);
    text += "<item id='" + number + "'><name>" + std::string(1 + i * 13, 'n') + "</name>&lt;" + number + "</item>";
  }
  return text + "</list>";
}

TEST_F(RealLibraries, Libxml2) {
  xmlMemSetup(Free, Allocate, Reallocate, [](const char *text) {
    size_t size = std::strlen(text) + 1;
    void *copy = Allocate(size);
    return static_cast<char *>(std::memcpy(copy, text, size));
  });
  xmlInitParser();
  Run(Scaled(300, 5), [this](size_t self, size_t round) {
    std::string text = DocumentText(self + round);
    xmlDocPtr document = xmlReadMemory(text.data(), static_cast<int>(text.size()), nullptr, nullptr, 0);
    ASSERT_NE(document, nullptr);
    xmlXPathContextPtr context = xmlXPathNewContext(document);
    xmlXPathObjectPtr found = xmlXPathEvalExpression(BAD_CAST "//item[string-length(name) > 260]", context);
    EXPECT_EQ(found->nodesetval->nodeNr, 20);
    xmlXPathFreeObject(found);
    xmlXPathFreeContext(context);
    from_[self].Put([document] {
      xmlChar *written = nullptr;
      int length = 0;
      xmlDocDumpMemory(document, &written, &length);
      EXPECT_GT(length, 40 * 40 * 13 / 2);
      xmlFree(written);
      xmlFreeDoc(document);
    });
  });
  xmlCleanupParser();
}

#else
TEST_F(RealLibraries, Libxml2) { GTEST_SKIP() << "no libxml2-dev"; }
#endif

/* ---- Lua: interpreters. */

#if HK_HAVE_LUA

const char lua_script[] = R"(
  local function tree(depth)
    if depth == 0 then return {name = 'leaf' .. depth} end
    return {tree(depth - 1), tree(depth - 1), name = string.rep('n', depth * 50)}
  end
  local function count(t) return 1 + (t[1] and count(t[1]) + count(t[2]) or 0) end
  kept = {}
  for i = 1, 8 do kept[i] = tree(7) end
  local sum = 0
  for i = 1, 8 do sum = sum + count(kept[i]) end
  for i = 1, 8, 2 do kept[i] = nil end
  collectgarbage()
  return sum
)";

TEST_F(RealLibraries, Lua) {
  Run(Scaled(150, 3), [this](size_t self, size_t) {
    lua_State *state = lua_newstate(
        [](void *, void *block, size_t, size_t size) -> void * {
          if (size > 0) return Reallocate(block, size);
          Free(block);
          return nullptr;
        },
        nullptr);
    ASSERT_NE(state, nullptr);
    luaL_openlibs(state);
    ASSERT_EQ(luaL_dostring(state, lua_script), LUA_OK) << lua_tostring(state, -1);
    EXPECT_EQ(lua_tointeger(state, -1), 8 * 255);
    from_[self].Put([state] {
      EXPECT_EQ(luaL_dostring(state, "local t = kept[2] kept = nil return t.name"), LUA_OK);
      EXPECT_EQ(lua_rawlen(state, -1), 350u);
      lua_close(state);
    });
  });
}

#else
TEST_F(RealLibraries, Lua) { GTEST_SKIP() << "no liblua5.4-dev"; }
#endif

/* ---- zlib: streams that one thread writes and another ends. */

#if HK_HAVE_ZLIB

z_stream *NewStream() {
  z_stream *stream = static_cast<z_stream *>(Allocate(sizeof(z_stream)));
  *stream = {};
  stream->zalloc = [](void *, unsigned count, unsigned size) { return Allocate(size_t{count} * size); };
  stream->zfree = [](void *, void *block) { Free(block); };
  return stream;
}

constexpr size_t kPlainBytes = 100000;

void Unpack(unsigned char *packed, size_t packed_bytes, unsigned char first) {
  unsigned char *plain = static_cast<unsigned char *>(Allocate(kPlainBytes));
  z_stream *stream = NewStream();
  ASSERT_EQ(inflateInit(stream), Z_OK);
  stream->next_in = packed;
  stream->avail_in = static_cast<unsigned>(packed_bytes);
  stream->next_out = plain;
  stream->avail_out = kPlainBytes;
  EXPECT_EQ(inflate(stream, Z_FINISH), Z_STREAM_END);
  EXPECT_EQ(stream->total_out, kPlainBytes);
  for (size_t i = 0; i < kPlainBytes; i += 1000) ASSERT_EQ(plain[i], static_cast<unsigned char>(first + i / 100));
  inflateEnd(stream);
  Free(stream);
  Free(plain);
  Free(packed);
}

TEST_F(RealLibraries, Zlib) {
  Run(Scaled(150, 3), [this](size_t self, size_t round) {
    unsigned char first = static_cast<unsigned char>(self * 50 + round);
    unsigned char *plain = static_cast<unsigned char *>(Allocate(kPlainBytes));
    for (size_t i = 0; i < kPlainBytes; i++) plain[i] = static_cast<unsigned char>(first + i / 100);
    z_stream *stream = NewStream();
    ASSERT_EQ(deflateInit(stream, 1 + static_cast<int>(round % 9)), Z_OK);
    size_t room = deflateBound(stream, kPlainBytes);
    unsigned char *packed = static_cast<unsigned char *>(Allocate(room));
    stream->next_in = plain;
    stream->avail_in = kPlainBytes;
    stream->next_out = packed;
    stream->avail_out = static_cast<unsigned>(room);
    EXPECT_EQ(deflate(stream, Z_FINISH), Z_STREAM_END);
    from_[self].Put([stream, plain, packed, first] {
      Unpack(packed, stream->total_out, first);
      deflateEnd(stream);
      Free(stream);
      Free(plain);
    });
  });
}

#else
TEST_F(RealLibraries, Zlib) { GTEST_SKIP() << "no zlib1g-dev"; }
#endif

} /* namespace */
