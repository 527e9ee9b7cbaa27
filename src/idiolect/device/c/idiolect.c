/* See idiolect.h for how to use it, and programs.py and packing.py, which lie beside it, for the format.
 *
 * A bundle is walked from operation to operation, once to check it and once for every image. A dense layer looks up what
 * a byte of codes adds to an output, in a table of 256 sums that is made for each group of inputs; a convolution, which
 * needs every weight at many places, unpacks a few rows of weights at a time.
 */
#include "idiolect.h"

#include <math.h>
#include <string.h>

enum { HOLD, DENSE, CONVOLVE, POOL, CHANNELS_FIRST, MEAN, KEEP, ADD, OPERATIONS };
enum { NONE, ELU, RELU, TANH, ACTIVATIONS };
enum { AXES = 8, TABLE = 256, TABLES = 4, LANES = 16, PLACES = 4, ROWS = 32 };
#define MOST_VALUES ((uint64_t)1 << 22)
#define MOST_HEADER ((uint64_t)1 << 20)

typedef char float_has_32_bits[sizeof(float) == 4 ? 1 : -1];

/* ---- Reading ---------------------------------------------------------------------------------------------------- */

typedef struct {
    const unsigned char *program, *numbers, *codes;
    size_t program_left, numbers_left, codes_left;
    const char *wrong;
} walk;

typedef struct {
    uint32_t levels, axes, extent[AXES];
    size_t size, rows, columns, books; /* one codebook, or one for each column */
    unsigned bits, group;
    const unsigned char *numbers, *codes; /* no numbers: there is no such layer */
} layer;

typedef struct {
    uint32_t kind, setting[3];
    layer part[3];
} operation;

static const int SETTINGS[OPERATIONS] = {0, 1, 3, 1, 0, 0, 0, 3};
static const int LAYERS[OPERATIONS] = {1, 2, 3, 0, 0, 0, 0, 0};

static uint32_t fail(walk *w, const char *why) {
    if (!w->wrong) w->wrong = why;
    return 0;
}

/* Seven bits a byte, the lowest first. */
static uint32_t take(walk *w) {
    uint64_t value = 0;
    for (int shift = 0; shift < 35; shift += 7) {
        if (!w->program_left) return fail(w, "the program is cut off");
        unsigned char byte = *w->program++;
        w->program_left--;
        value |= (uint64_t)(byte & 127) << shift;
        if (byte < 128) return value < (uint64_t)1 << 31 ? (uint32_t)value : fail(w, "a number is too large");
    }
    return fail(w, "a number is too large");
}

static float number(const unsigned char *at) {
    uint32_t bits = (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
    float value;
    memcpy(&value, &bits, 4);
    return value;
}

static void copy_numbers(float *to, const unsigned char *from, size_t count) {
    static const uint16_t one = 1;
    if (*(const unsigned char *)&one) {
        memcpy(to, from, 4 * count); /* this machine writes numbers as the bundle does */
        return;
    }
    for (size_t k = 0; k < count; k++) to[k] = number(from + 4 * k);
}

static unsigned bits_for(uint32_t levels) {
    unsigned bits = 1;
    while ((uint32_t)1 << bits < levels) bits++;
    return bits;
}

static void read_layer(walk *w, layer *l) {
    uint64_t size = 1, most = 2 * (uint64_t)w->numbers_left + 8 * (uint64_t)w->codes_left;
    uint32_t kind = take(w);
    memset(l, 0, sizeof *l);
    if (!kind || w->wrong) return;
    int by_output = kind - 1 > TABLE;
    l->levels = by_output ? kind - 1 - TABLE : kind - 1;
    l->axes = take(w);
    if (l->levels > TABLE || l->axes > AXES) fail(w, "a layer has too many levels or axes");
    if (by_output && l->axes != 2 && l->axes != 4) fail(w, "a layer without outputs has levels for each");
    for (uint32_t k = 0; k < l->axes && !w->wrong; k++) {
        l->extent[k] = take(w);
        size *= l->extent[k];
        if (!size || size > most) fail(w, "a layer is larger than the bundle");
    }
    if (w->wrong) return;
    l->size = (size_t)size;
    l->columns = l->axes == 4 ? l->extent[0] : l->axes == 2 ? l->extent[1] : 1;
    l->rows = l->size / l->columns;
    l->books = by_output ? l->columns : 1;
    l->bits = bits_for(l->levels);
    l->group = l->bits == 3 ? 2 : 8 / l->bits;
    uint64_t numbers = 4 * (l->levels ? (uint64_t)l->levels * l->books : size);
    uint64_t codes = l->levels ? l->bits * ((size + 7) / 8) : 0;
    if (numbers > w->numbers_left || codes > w->codes_left) {
        fail(w, "a layer is larger than the bundle");
        return;
    }
    l->numbers = w->numbers;
    l->codes = w->codes;
    w->numbers += (size_t)numbers, w->numbers_left -= (size_t)numbers;
    w->codes += (size_t)codes, w->codes_left -= (size_t)codes;
}

static void read_operation(walk *w, operation *o) {
    memset(o, 0, sizeof *o);
    o->kind = take(w);
    if (o->kind >= OPERATIONS) fail(w, "an operation is unknown");
    if (w->wrong) return;
    for (int k = 0; k < SETTINGS[o->kind]; k++) o->setting[k] = take(w);
    for (int k = 0; k < LAYERS[o->kind] && !w->wrong; k++) read_layer(w, &o->part[k]);
}

static walk begin(const idiolect_model *m) {
    walk w = {m->program + m->first_operation, m->numbers, m->codes, m->program_bytes - m->first_operation,
              m->number_bytes, m->code_bytes, NULL};
    return w;
}

/* Indices one after the other; no byte is read before it is needed. */
typedef struct {
    const unsigned char *next;
    uint32_t held;
    unsigned count;
} bit_stream;

static inline uint32_t next_bits(bit_stream *s, unsigned bits) {
    if (s->count < bits) {
        s->held |= (uint32_t)*s->next++ << s->count;
        s->count += 8;
    }
    uint32_t found = s->held & (((uint32_t)1 << bits) - 1);
    s->held >>= bits;
    s->count -= bits;
    return found;
}

/* One weight of a vector. */
static float element(const layer *l, size_t k) {
    if (!l->levels) return number(l->numbers + 4 * k);
    size_t first = k * l->bits;
    uint32_t two = l->codes[first / 8];
    if (first % 8 + l->bits > 8) two |= (uint32_t)l->codes[first / 8 + 1] << 8;
    return number(l->numbers + 4 * (two >> first % 8 & (((uint32_t)1 << l->bits) - 1)));
}

/* ---- Checking --------------------------------------------------------------------------------------------------- */

typedef struct {
    uint32_t height, width, channels; /* a vector is 1 x 1 x channels */
    int is_image;
} shape;

static uint64_t count_of(shape s) { return (uint64_t)s.height * s.width * s.channels; }

static void check_values(walk *w, const layer *l) {
    size_t numbers = l->levels ? l->levels * l->books : l->size;
    if (!l->numbers || w->wrong) return;
    for (size_t k = 0; k < numbers; k++) {
        const unsigned char *at = l->numbers + 4 * k;
        if ((at[3] & 0x7f) == 0x7f && (at[2] & 0x80)) fail(w, "a number is not finite");
    }
    if (!l->levels || (uint32_t)1 << l->bits == l->levels) return;
    bit_stream s = {l->codes, 0, 0};
    for (size_t k = 0; k < l->size; k++)
        if (next_bits(&s, l->bits) >= l->levels) fail(w, "a weight is beyond its levels");
}

static int fits_vector(const layer *l, size_t size) {
    return !l->numbers || (l->axes == 1 && l->size == size);
}

/* Rows of weights that are unpacked at a time. */
static size_t rows_at_once(const layer *l) { return l->columns <= 128 ? ROWS : 8; }

static shape after(walk *w, const operation *o, shape s, shape kept) {
    const layer *weight = &o->part[0];
    const uint32_t *set = o->setting;
    if (o->kind == DENSE) {
        if (!weight->numbers || weight->axes != 2 || weight->rows != count_of(s)) fail(w, "a dense layer does not fit");
        if (set[0] >= ACTIVATIONS || !fits_vector(&o->part[1], weight->columns)) fail(w, "a dense layer does not fit");
        shape vector = {1, 1, (uint32_t)weight->columns, 0};
        return vector;
    }
    if (!s.is_image) fail(w, "an operation needs an image");
    if (w->wrong) return s;
    if (o->kind == CONVOLVE) {
        uint32_t tall = weight->extent[1], wide = weight->extent[2], stride = set[0], padding = set[1];
        if (!weight->numbers || weight->axes != 4 || weight->extent[3] != s.channels || !stride ||
            set[2] >= ACTIVATIONS || padding >= (tall < wide ? tall : wide) ||
            tall > (uint64_t)s.height + 2 * (uint64_t)padding || wide > (uint64_t)s.width + 2 * (uint64_t)padding ||
            !fits_vector(&o->part[1], weight->columns) || !fits_vector(&o->part[2], weight->columns)) {
            fail(w, "a convolution does not fit");
            return s;
        }
        s.height = (uint32_t)(((uint64_t)s.height + 2 * (uint64_t)padding - tall) / stride + 1);
        s.width = (uint32_t)(((uint64_t)s.width + 2 * (uint64_t)padding - wide) / stride + 1);
        s.channels = (uint32_t)weight->columns;
    } else if (o->kind == POOL) {
        if (!set[0]) fail(w, "a window has no pixels");
        else s.height /= set[0], s.width /= set[0];
    } else if (o->kind == ADD) {
        uint32_t stride = set[0];
        if (!stride || set[2] >= ACTIVATIONS || !kept.is_image || (kept.height - 1) / stride + 1 != s.height ||
            (kept.width - 1) / stride + 1 != s.width || (uint64_t)set[1] + kept.channels > s.channels)
            fail(w, "what is kept does not fit");
    } else {
        uint64_t size = o->kind == MEAN ? s.channels : count_of(s);
        shape vector = {1, 1, (uint32_t)size, 0};
        return vector;
    }
    return s;
}

static const char *check_operations(idiolect_model *m) {
    walk w = begin(m);
    shape s = {m->height, m->width, m->channels, 1}, kept = s;
    int has_image = m->height || m->width || m->channels;
    if (has_image && (!count_of(s) || m->height > MOST_VALUES || m->width > MOST_VALUES ||
                      (uint64_t)m->height * m->width > MOST_VALUES || count_of(s) > MOST_VALUES))
        return "an image is empty, or too large";
    m->values = (size_t)count_of(s), m->kept = 0, m->scratch = 0, m->products = 0;
    for (uint32_t k = 0; k < m->operations && !w.wrong; k++) {
        operation o;
        shape before = s;
        read_operation(&w, &o);
        for (int part = 0; part < 3; part++) check_values(&w, &o.part[part]);
        if (w.wrong || o.kind == HOLD) continue;
        if (!has_image) return "there are operations, but no image";
        if (o.kind == KEEP) {
            kept = s;
            if (count_of(s) > m->kept) m->kept = (size_t)count_of(s);
            continue;
        }
        if (o.kind == ADD && !m->kept) return "nothing was kept that could be added";
        s = after(&w, &o, s, kept);
        if (w.wrong) break;
        uint64_t pixels = (uint64_t)s.height * s.width;
        if (!pixels || pixels > MOST_VALUES || !s.channels || pixels * s.channels > MOST_VALUES)
            return "something computed is empty, or too large";
        if (count_of(s) > m->values) m->values = (size_t)count_of(s);
        if (o.kind == DENSE || o.kind == CONVOLVE) {
            size_t scratch = rows_at_once(&o.part[0]) * o.part[0].columns;
            if (scratch > m->scratch) m->scratch = scratch;
            m->products += (double)pixels * (double)o.part[0].size;
        } else {
            m->products += (double)count_of(before);
        }
    }
    if (w.wrong) return w.wrong;
    while (w.program_left--)
        if (*w.program++) return "the program goes on after its end";
    if (w.numbers_left || w.codes_left) return "there are weights that no layer has";
    if (!has_image) return "the bundle holds weights, but does not say what is computed with them";
    if (s.is_image) return "the program ends in an image";
    m->classes = s.channels;
    m->workspace = 2 * m->values + m->kept + m->scratch + TABLES * TABLE;
    return NULL;
}

const char *idiolect_open(idiolect_model *m, const void *bundle, size_t bytes) {
    const unsigned char *at = bundle;
    uint64_t header = 0;
    memset(m, 0, sizeof *m);
    if (bytes < 8) return "the bundle is too short";
    for (int k = 7; k >= 0; k--) header = header << 8 | at[k];
    if (header > bytes - 8 || header > MOST_HEADER) return "the header is longer than the bundle, or than headers are";
    m->program = at + 8 + (size_t)header;
    size_t left = bytes - 8 - (size_t)header;
    if (left < 4 || memcmp(m->program, "IDM\3", 4) != 0) return "there is no program of version 3";
    walk w = {m->program + 4, NULL, NULL, left - 4, 0, 0, NULL};
    m->program_bytes = take(&w);
    m->number_bytes = take(&w);
    m->code_bytes = take(&w);
    m->height = take(&w);
    m->width = take(&w);
    m->channels = take(&w);
    m->divisor = take(&w);
    m->operations = take(&w);
    m->first_operation = (size_t)(w.program - m->program);
    if (w.wrong) return w.wrong;
    if (!m->divisor) return "pixels are divided by 0";
    if (m->program_bytes > left || m->program_bytes % 8 || m->first_operation > m->program_bytes ||
        m->number_bytes > left - m->program_bytes || m->number_bytes % 4 ||
        m->code_bytes != left - m->program_bytes - m->number_bytes)
        return "the tensors do not fill the bundle";
    m->numbers = m->program + m->program_bytes;
    m->codes = m->numbers + m->number_bytes;
    return check_operations(m);
}

/* ---- Computing -------------------------------------------------------------------------------------------------- */

/* y += x times rows of weights, for a few outputs at some places at once, so that sums stay in registers. */
static inline void add_tile(float *y, const float *x, const float *weights, size_t rows, size_t columns, size_t places) {
    float sum[PLACES][LANES];
    for (size_t place = 0; place < places; place++) memcpy(sum[place], y + place * columns, sizeof sum[place]);
    for (size_t row = 0; row < rows; row++)
        for (size_t place = 0; place < places; place++)
            for (size_t lane = 0; lane < LANES; lane++)
                sum[place][lane] += x[place * ROWS + row] * weights[row * columns + lane];
    for (size_t place = 0; place < places; place++) memcpy(y + place * columns, sum[place], sizeof sum[place]);
}

static void accumulate(float *y, const float *x, const float *weights, size_t rows, size_t columns, size_t places) {
    size_t column = 0;
    for (; column + LANES <= columns; column += LANES) {
        if (places == PLACES) add_tile(y + column, x, weights + column, rows, columns, PLACES);
        else
            for (size_t place = 0; place < places; place++)
                add_tile(y + place * columns + column, x + place * ROWS, weights + column, rows, columns, 1);
    }
    for (; column < columns; column++)
        for (size_t place = 0; place < places; place++)
            for (size_t row = 0; row < rows; row++)
                y[place * columns + column] += x[place * ROWS + row] * weights[row * columns + column];
}

/* The next rows of a layer as floats; a layer is unpacked from its first row to its last. Where every column has levels
 * of its own, they are read where they lie. */
static void unpack(const layer *l, bit_stream *s, size_t first, size_t rows, const float *levels, float *to) {
    if (!l->levels) {
        copy_numbers(to, l->numbers + 4 * first * l->columns, rows * l->columns);
        return;
    }
    for (size_t row = 0; row < rows; row += l->group) {
        size_t together = rows - row < l->group ? rows - row : l->group;
        for (size_t column = 0; column < l->columns; column++)
            for (size_t k = 0; k < together; k++) {
                size_t level = next_bits(s, l->bits);
                to[(row + k) * l->columns + column] =
                    l->books == 1 ? levels[level] : number(l->numbers + 4 * (column * l->levels + level));
            }
    }
}

/* Some of what a kernel sees at a place: `count` of its inputs from the `first` on. */
static void gather(float *to, const float *x, shape s, const layer *l, int64_t top, int64_t left, size_t first,
                   size_t count) {
    size_t wide = l->extent[2], channels = s.channels;
    while (count) {
        size_t pixel = first / channels, channel = first % channels;
        size_t run = channels - channel < count ? channels - channel : count;
        int64_t row = top + (int64_t)(pixel / wide), column = left + (int64_t)(pixel % wide);
        if (row < 0 || column < 0 || row >= (int64_t)s.height || column >= (int64_t)s.width)
            memset(to, 0, run * sizeof(float));
        else
            memcpy(to, x + ((size_t)row * s.width + (size_t)column) * channels + channel, run * sizeof(float));
        to += run, first += run, count -= run;
    }
}

static void convolve(const operation *o, const float *x, shape s, float *y, shape out, float *tables, float *block) {
    const layer *l = &o->part[0];
    bit_stream stream = {l->codes, 0, 0};
    size_t at_once = rows_at_once(l);
    size_t places = (size_t)out.height * out.width;
    float seen[PLACES * ROWS];
    if (l->levels && l->books == 1) copy_numbers(tables, l->numbers, l->levels);
    memset(y, 0, (size_t)count_of(out) * sizeof(float));
    for (size_t first = 0; first < l->rows; first += at_once) {
        size_t rows = l->rows - first < at_once ? l->rows - first : at_once;
        unpack(l, &stream, first, rows, tables, block);
        for (size_t place = 0; place < places; place += PLACES) {
            size_t few = places - place < PLACES ? places - place : PLACES;
            if (o->kind == DENSE) {
                accumulate(y, x + first, block, rows, l->columns, 1);
                continue;
            }
            for (size_t k = 0; k < few; k++) {
                int64_t row = (int64_t)((place + k) / out.width), column = (int64_t)((place + k) % out.width);
                int64_t stride = o->setting[0], padding = o->setting[1];
                gather(seen + k * ROWS, x, s, l, row * stride - padding, column * stride - padding, first, rows);
            }
            accumulate(y + place * l->columns, seen, block, rows, l->columns, few);
        }
    }
}

/* What every code of a group of inputs adds to an output. */
static void tabulate(float *sums, const float *x, unsigned group, unsigned bits, const float *levels) {
    size_t size = (size_t)1 << bits;
    for (size_t k = 0; k < size; k++) sums[k] = levels[k] * x[0];
    for (unsigned input = 1; input < group; input++) {
        for (size_t level = (size_t)1 << bits; level-- > 0;) {
            float more = levels[level] * x[input];
            for (size_t k = 0; k < size; k++) sums[level * size + k] = sums[k] + more;
        }
        size <<= bits;
    }
}

static void look_up(const layer *l, const float *x, float *y, float *tables) {
    float levels[TABLE];
    size_t groups = l->rows / l->group, n = l->columns, done = 0;
    bit_stream stream = {l->codes, 0, 0};
    for (size_t k = 0; k < (size_t)1 << l->bits; k++) /* codes beyond the levels have been refused */
        levels[k] = number(l->numbers + 4 * (k < l->levels ? k : l->levels - 1));
    memset(y, 0, n * sizeof(float));
    if (l->group * l->bits == 8) { /* whole bytes: four groups at once */
        for (; done + TABLES <= groups; done += TABLES) {
            const unsigned char *codes = l->codes + done * n;
            for (size_t k = 0; k < TABLES; k++)
                tabulate(tables + k * TABLE, x + (done + k) * l->group, l->group, l->bits, levels);
            for (size_t k = 0; k < n; k++)
                y[k] += (tables[codes[k]] + tables[TABLE + codes[n + k]]) +
                        (tables[2 * TABLE + codes[2 * n + k]] + tables[3 * TABLE + codes[3 * n + k]]);
        }
        stream.next += done * n;
    }
    for (; done < groups; done++) {
        tabulate(tables, x + done * l->group, l->group, l->bits, levels);
        for (size_t k = 0; k < n; k++) y[k] += tables[next_bits(&stream, l->bits * l->group)];
    }
    for (size_t k = 0; k < n; k++)
        for (size_t row = groups * l->group; row < l->rows; row++) y[k] += levels[next_bits(&stream, l->bits)] * x[row];
}

static void bend(float *x, size_t count, uint32_t activation) {
    if (activation == ELU)
        for (size_t k = 0; k < count; k++) x[k] = x[k] > 0 ? x[k] : expm1f(x[k]);
    else if (activation == RELU)
        for (size_t k = 0; k < count; k++) x[k] = x[k] > 0 ? x[k] : 0;
    else if (activation == TANH)
        for (size_t k = 0; k < count; k++) x[k] = tanhf(x[k]);
}

static void multiply(const operation *o, const float *x, shape s, float *y, shape out, float *tables, float *block) {
    const layer *l = &o->part[0], *scale = &o->part[1], *shift = &o->part[2];
    if (o->kind == DENSE && l->levels && l->books == 1 && 2 * l->columns >= (size_t)1 << l->bits * l->group) /* worth a table */
        look_up(l, x, y, tables);
    else
        convolve(o, x, s, y, out, tables, block);
    if (o->kind == DENSE) shift = scale;
    size_t pixels = (size_t)out.height * out.width, n = l->columns;
    float *slope = block, *offset = block + n; /* the weights that were unpacked there are done with */
    for (size_t k = 0; k < n; k++) {
        slope[k] = o->kind == CONVOLVE && scale->numbers ? element(scale, k) : 1;
        offset[k] = shift->numbers ? element(shift, k) : 0;
    }
    for (size_t pixel = 0; pixel < pixels; pixel++, y += n) {
        for (size_t k = 0; k < n; k++) y[k] = y[k] * slope[k] + offset[k];
        bend(y, n, o->setting[o->kind == DENSE ? 0 : 2]);
    }
}

static void pool(const float *x, shape s, float *y, shape out, uint32_t side) {
    for (size_t row = 0; row < out.height; row++)
        for (size_t column = 0; column < out.width; column++)
            for (size_t channel = 0; channel < s.channels; channel++) {
                float most = -INFINITY;
                for (size_t i = row * side; i < (row + 1) * side; i++)
                    for (size_t j = column * side; j < (column + 1) * side; j++) {
                        float value = x[(i * s.width + j) * s.channels + channel];
                        if (value > most) most = value;
                    }
                *y++ = most;
            }
}

static void channels_first(const float *x, shape s, float *y) {
    size_t pixels = (size_t)s.height * s.width;
    for (size_t channel = 0; channel < s.channels; channel++)
        for (size_t pixel = 0; pixel < pixels; pixel++) *y++ = x[pixel * s.channels + channel];
}

static void mean(const float *x, shape s, float *y) {
    size_t pixels = (size_t)s.height * s.width;
    for (size_t channel = 0; channel < s.channels; channel++) {
        float sum = 0;
        for (size_t pixel = 0; pixel < pixels; pixel++) sum += x[pixel * s.channels + channel];
        y[channel] = sum / (float)pixels;
    }
}

static void add(float *x, shape s, const float *kept, shape from, const uint32_t *set) {
    for (size_t row = 0; row < s.height; row++)
        for (size_t column = 0; column < s.width; column++) {
            const float *old = kept + (row * set[0] * from.width + column * set[0]) * from.channels;
            float *to = x + (row * s.width + column) * s.channels;
            for (size_t channel = 0; channel < from.channels; channel++) to[set[1] + channel] += old[channel];
            bend(to, s.channels, set[2]);
        }
}

void idiolect_predict(const idiolect_model *m, const float *image, float *logits, float *workspace) {
    float *x = workspace, *y = x + m->values, *kept = y + m->values, *tables = kept + m->kept;
    float *block = tables + TABLES * TABLE;
    shape s = {m->height, m->width, m->channels, 1}, of_kept = s;
    walk w = begin(m);
    memcpy(x, image, (size_t)count_of(s) * sizeof(float));
    for (uint32_t k = 0; k < m->operations; k++) {
        operation o;
        read_operation(&w, &o);
        if (o.kind == HOLD) continue;
        if (o.kind == KEEP) {
            memcpy(kept, x, (size_t)count_of(s) * sizeof(float));
            of_kept = s;
            continue;
        }
        shape out = after(&w, &o, s, of_kept);
        if (o.kind == ADD) {
            add(x, s, kept, of_kept, o.setting);
            continue;
        }
        if (o.kind == DENSE || o.kind == CONVOLVE) multiply(&o, x, s, y, out, tables, block);
        else if (o.kind == POOL) pool(x, s, y, out, o.setting[0]);
        else if (o.kind == MEAN) mean(x, s, y);
        else channels_first(x, s, y);
        float *other = x;
        x = y, y = other, s = out;
    }
    memcpy(logits, x, m->classes * sizeof(float));
}

void idiolect_scale(const idiolect_model *m, const unsigned char *pixels, float *image) {
    size_t count = (size_t)m->height * m->width * m->channels;
    for (size_t k = 0; k < count; k++) image[k] = (float)pixels[k] / (float)m->divisor;
}

uint32_t idiolect_class(const idiolect_model *m, const float *logits) {
    uint32_t best = 0;
    for (uint32_t k = 1; k < m->classes; k++)
        if (logits[k] > logits[best]) best = k;
    return best;
}
