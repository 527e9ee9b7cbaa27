/* run BUNDLE [TIMES] < IMAGES > LOGITS: images and logits are float32 one after the other, as the machine has them.
 *
 * With TIMES, every image is computed so often, and stderr gets the mean of the processor's milliseconds and, where Linux
 * tells it, the most memory that the process had, in kilobytes. Without a bundle, it is the memory alone.
 */
#include "idiolect.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static unsigned char *read_file(const char *name, size_t *bytes) {
    FILE *file = fopen(name, "rb");
    long length;
    unsigned char *found;
    if (!file || fseek(file, 0, SEEK_END) || (length = ftell(file)) < 0 || fseek(file, 0, SEEK_SET)) return NULL;
    found = malloc((size_t)length + 1);
    if (found && fread(found, 1, (size_t)length, file) != (size_t)length) return NULL;
    fclose(file);
    *bytes = (size_t)length;
    return found;
}

static void tell_memory(void) {
    FILE *status = fopen("/proc/self/status", "r");
    char line[256];
    long most = 0;
    while (status && fgets(line, sizeof line, status))
        if (sscanf(line, "VmHWM: %ld", &most) == 1) break;
    if (status) fclose(status);
    fprintf(stderr, "%ld\n", most);
}

int main(int count, char **words) {
    size_t bytes = 0;
    unsigned char *bundle = count > 1 ? read_file(words[1], &bytes) : NULL;
    idiolect_model model;
    const char *wrong = bundle ? idiolect_open(&model, bundle, bytes) : "it cannot be read";
    if (wrong) {
        fprintf(stderr, "%s: %s\n", count > 1 ? words[1] : "usage: run BUNDLE [TIMES]", wrong);
        if (count == 1) tell_memory();
        free(bundle);
        return 2;
    }
    size_t size = (size_t)model.height * model.width * model.channels;
    float *image = malloc(size * sizeof(float)), *logits = malloc(model.classes * sizeof(float));
    float *workspace = malloc(model.workspace * sizeof(float));
    if (!image || !logits || !workspace) return 3;
    int times = count > 2 ? atoi(words[2]) : 1, images = 0;
    clock_t spent = 0;
    while (fread(image, sizeof(float), size, stdin) == size) {
        clock_t before = clock();
        for (int k = 0; k < times; k++) idiolect_predict(&model, image, logits, workspace);
        spent += clock() - before;
        images++;
        fwrite(logits, sizeof(float), model.classes, stdout);
    }
    if (count > 2 && images && times) {
        fprintf(stderr, "%.6f ", 1000.0 * (double)spent / CLOCKS_PER_SEC / images / times);
        tell_memory();
    }
    free(workspace), free(logits), free(image), free(bundle);
    return 0;
}
