/*
 * Frames between the engine and the spawner, all numbers little-endian:
 *
 *   frame    u32 length of what follows | u8 type | body
 *   HELLO    "DUCT" | u16 version | u8 rung          READY    (empty)
 *   START    u32 id | u8 flags | u32 timeout_ms | u32 grace_ms | u32 drain_ms | u32 stdout_max
 *            | u32 stderr_max | u32 env_count | u32 strings_length | u64 memory_max | u64 file_max
 *            | u32 processes_max | u32 cpu_ms_max | strings | stdin
 *            flags: 1 held, the rest is how many strings the wrapper has
 *            strings: wrapper, entrypoint, cwd, then KEY=VALUE each, every one ended by a NUL
 *   FEED     u32 id | u32 timeout_ms | stdin         STOP     u32 id | u8 reason
 *   RENEW    u32 ms                                  BYE      (empty)
 *   STARTED  u32 id | u32 pid                        SPOILED  u32 id
 *   END      u32 id | u8 kind | i32 code | u8 stopped | u8 flags | u32 pid | u32 spawn_us
 *            | u64 run_us | u32 stdout_length | u64 cpu_us | u64 memory_peak | stdout | stderr
 *            cpu_us and memory_peak: all ones when they are not known
 *
 * src/plugin/spawner/frames.ts is the other half; a change here is a change there and a new version.
 */
#ifndef DUCTILE_WIRE_H
#define DUCTILE_WIRE_H

#include "base.h"
#include "events.h"

enum { WIRE_VERSION = 3, RUNG_NATIVE = 1, FRAME_MAX = 256 * 1024 * 1024 };
enum { START = 1, FEED = 2, STOP = 3, RENEW = 4, BYE = 5 };
enum { HELLO = 16, READY = 17, STARTED = 18, SPOILED = 19, END = 20 };
enum { START_FIXED = 57, END_FIXED = 47 };
enum { START_HOLD = 1, START_WRAPPER_SHIFT = 1, START_WRAPPER_MAX = 127 };
enum { EXITED = 0, SIGNALLED = 1, UNSTARTED = 2 };
enum { STDOUT_OVERFLOWED = 1, STDERR_TRUNCATED = 2, HOST_FULL = 4 };
typedef enum { NOT_STOPPED, BY_TIMEOUT, BY_CANCEL, BY_OUTPUT, BY_FENCE, BY_SHUTDOWN,
               BY_MEMORY, BY_PROCESSES, BY_CPU, BY_FILE_SIZE } Reason;

enum { KEY_INPUT = 1, KEY_OUTPUT = 2, KEY_CHILDREN = 3 };

/* ---- what comes in ---- */

static Bytes input;
static size_t input_at; /* what lies before it has been handled */

/* Returns false if the service has ended. A socket whose peer died with unread data returns ECONNRESET. */
static bool input_fill(void) {
  if (input_at > 0) {
    memmove(input.data, input.data + input_at, input.length - input_at);
    input.length -= input_at;
    input_at = 0;
  }
  if (input.length == 0) bytes_clear(&input);
  bytes_need(&input, sizeof scratch);
  ssize_t got = read(0, input.data + input.length, input.room - input.length);
  if (got < 0) return would_block();
  input.length += (size_t)got;
  return got > 0;
}

static uint32_t get_u32(const unsigned char *at) {
  return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

static uint64_t get_u64(const unsigned char *at) {
  return (uint64_t)get_u32(at) | (uint64_t)get_u32(at + 4) << 32;
}

static bool input_has_frame(void) {
  size_t left = input.length - input_at;
  if (left < 4) return false;
  uint32_t length = get_u32(input.data + input_at);
  if (length == 0 || length > FRAME_MAX) {
    errno = EPROTO;
    die("frame length");
  }
  return left - 4 >= length;
}

/* ---- what goes out ---- */

/*
 * A list of chunks. Small frames share the last one; a large output is passed on without a copy. A slow
 * service makes the list longer and blocks nothing; it contains at most one result per requested
 * process.
 */
typedef struct Chunk {
  struct Chunk *next;
  Bytes bytes;
  size_t written;
} Chunk;

static Chunk *output_first, *output_last;
static bool output_watched;
static uint64_t output_due_us; /* 0 when there is nothing to write */

/* STARTED alone doesn't wake the service; it is sent with the next frame. */
enum { STARTED_WAITS_US = 2000 };

static void output_push(Bytes bytes) {
  Chunk *chunk = must_alloc(NULL, sizeof *chunk);
  *chunk = (Chunk){.bytes = bytes};
  if (output_last == NULL) output_first = chunk;
  else output_last->next = chunk;
  output_last = chunk;
}

static void put(const void *data, size_t length) {
  bool fits = output_last != NULL && output_last->bytes.length < sizeof scratch;
  if (!fits) output_push((Bytes){0});
  bytes_add(&output_last->bytes, data, length);
}

static void put_u8(unsigned value) { put(&(unsigned char){(unsigned char)value}, 1); }

static void put_u32(uint32_t value) {
  unsigned char text[4];
  for (int i = 0; i < 4; i++) text[i] = (unsigned char)(value >> (8 * i));
  put(text, sizeof text);
}

static void put_u64(uint64_t value) {
  put_u32((uint32_t)value);
  put_u32((uint32_t)(value >> 32));
}

static void put_head(unsigned type, size_t body_length) {
  uint64_t due = now_us() + (type == STARTED ? STARTED_WAITS_US : 0);
  if (output_due_us == 0 || due < output_due_us) output_due_us = due;
  put_u32((uint32_t)(body_length + 1));
  put_u8(type);
}

/* Appends the bytes and empties the buffer: copies small ones, and moves large ones. */
static void put_bytes(Bytes *bytes) {
  if (bytes->length <= sizeof scratch / 2) {
    put(bytes->data, bytes->length);
    bytes_clear(bytes);
    return;
  }
  output_push(*bytes);
  *bytes = (Bytes){0};
}

/* Returns false if the service has ended. */
static bool output_flush(void) {
  while (output_first != NULL) {
    Chunk *chunk = output_first;
    ssize_t sent =
        write(1, chunk->bytes.data + chunk->written, chunk->bytes.length - chunk->written);
    if (sent < 0) {
      if (!would_block()) return false;
      if (!output_watched) watch(1, KEY_OUTPUT, WANT_WRITE);
      output_watched = true;
      return true;
    }
    chunk->written += (size_t)sent;
    if (chunk->written < chunk->bytes.length) continue;
    output_first = chunk->next;
    if (output_first == NULL) output_last = NULL;
    free(chunk->bytes.data);
    free(chunk);
  }
  if (output_watched) unwatch(1);
  output_watched = false;
  output_due_us = 0;
  return true;
}

static void send_hello(void) {
  put_head(HELLO, 7);
  put("DUCT", 4);
  put_u8(WIRE_VERSION & 0xff);
  put_u8(WIRE_VERSION >> 8);
  put_u8(RUNG_NATIVE);
}

static void send_started(uint32_t id, pid_t pid) {
  put_head(STARTED, 8);
  put_u32(id);
  put_u32((uint32_t)pid);
}

static void send_spoiled(uint32_t id) {
  put_head(SPOILED, 4);
  put_u32(id);
}

#endif
