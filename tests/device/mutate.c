/* mutate COUNT FILE...: a fuzzer for machines without libFuzzer. Changes the files at random, COUNT times in all. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST = 1 << 16 };
static uint8_t seeds[64][MOST], changed[2 * MOST];
static size_t sizes[64];
static uint64_t state = 88172645463325252u;

static size_t below(size_t limit) { /* xorshift64 */
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return limit ? (size_t)(state % limit) : 0;
}

static size_t change(size_t size) {
    static const uint8_t telling[] = {0, 1, 2, 3, 4, 7, 8, 9, 127, 128, 255};
    size_t from = below(size), to = below(size), count = below(9);
    /* The program lies at the beginning, and that is where a change does most. */
    size_t place = below(2) ? below(size < 96 ? size : 96) : below(size);
    switch (below(6)) {
    case 0: changed[place] ^= (uint8_t)(1 << below(8)); return size;
    case 1: changed[place] = telling[below(sizeof telling)]; return size;
    case 2: changed[place] = (uint8_t)below(256); return size;
    case 3: return place + (size > place ? below(size - place) : 0); /* cut off */
    case 4: /* some bytes again, elsewhere */
        if (from + count <= size && to + count <= size) memmove(changed + to, changed + from, count);
        return size;
    default: /* some bytes more, or fewer */
        if (below(2) && size + count <= MOST) {
            memmove(changed + place + count, changed + place, size - place);
            return size + count;
        }
        if (place + count <= size) memmove(changed + place, changed + place + count, size - place - count);
        return place + count <= size ? size - count : size;
    }
}

int main(int words, char **word) {
    long runs = words > 2 ? atol(word[1]) : 0;
    int files = 0;
    for (int k = 2; k < words && files < 64; k++) {
        FILE *file = fopen(word[k], "rb");
        if (!file) return 3;
        sizes[files] = fread(seeds[files], 1, MOST, file);
        if (sizes[files]) files++;
        fclose(file);
    }
    if (!files) return 3;
    for (long run = 0; run < runs; run++) {
        size_t seed = below((size_t)files), size = sizes[seed];
        memcpy(changed, seeds[seed], size);
        for (size_t times = 1 + below(4); times-- && size;) size = change(size);
        LLVMFuzzerTestOneInput(changed, size);
    }
    printf("%ld inputs, no finding\n", runs);
    return 0;
}
